-- The status of the run, which several parties decide together, and the answer of every call.

-- The indexes that the run is in for as long as it is there: its header lists them.
local function own_indexes() return split(get('indexes') or '', '[^,]+') end

local function index_status(old, new)
  local created = get('created')
  if old then call('ZREM', shard .. RUNS .. ':' .. old, run) end
  call('ZADD', shard .. RUNS .. ':' .. new, created, run)
end

local function set_status(status)
  local old = get('status')
  if old == status then return end
  status_before = status_before or old
  index_status(old, status)
  set('status', status)
  set('updated', ms(now()))
  set('rev', revision())
end

-- When nothing of an ended run is to be left: its header says how many ms each kind of end is kept. nil is never.
local function kept_until()
  local completed, failed, cancelled = string.match(get('keep') or '', '^(%d+),(%d+),(%d+)$')
  local keep = ({completed = completed, failed = failed, cancelled = cancelled})[get('status')]
  return keep and tonumber(get('ended')) + tonumber(keep)
end

local function finish(status)
  set_status(status)
  set('ended', ms(now()))
  local until_then = kept_until()
  if until_then then
    call('ZADD', shard .. ATTENTION, ms(until_then), run)
  else
    call('ZREM', shard .. ATTENTION, run)
  end
  local open = redis.pcall('HKEYS', base .. OPEN)   -- of a damaged run it may be anything
  for _, number in ipairs(open.err and {} or open) do
    if string.sub(number, 1, 1) ~= 'b' then call('ZREM', shard .. INBOX, run .. '#' .. number) end
  end
end

-- What several parties decide together is decided here, at the end of every call that changes a set, refused claims
-- included: two committers would each see the other still running.
local function settle()
  if ended() then return end
  local leased = call('ZCARD', base .. LEASES)
  if failing() then
    if leased == 0 then
      set('error', get('fail_error') or '')
      finish('failed')
    end
    return
  end
  local held = call('ZCARD', base .. HELD)
  local can = call('ZCARD', base .. READY) > 0 or call('ZCARD', base .. WAITS) > 0 or call('ZCARD', base .. PAUSED) > 0
    or ((get('release') or '') ~= '' and held > 0)
  if call('HLEN', base .. OPEN) > 0 then
    local movable = leased > 0 or (can and call('HEXISTS', base .. HOLDS, 'run') == 0)
    set_status(movable and 'running' or 'interrupted')
  elseif leased == 0 and not can and held == 0 then
    set('failing', '!')
    set('deadlocked', '1')
    set('error', '{"type":"deadlocked","message":"nothing can move and nobody is asked","node_id":null,"frame_id":null}')
    finish('failed')
  else
    set_status('running')
  end
end

-- A command on a record of the wrong type fails, and what the call wrote before it would stay. So whoever moves frames
-- reads every set first, all six in one command (their intersection is empty), and the two records that settle reads.
local function check_types()
  call('ZINTER', 6, base .. WAITS, base .. FAILED, base .. PAUSED, base .. HELD, base .. LEASES, base .. READY)
  call('HLEN', base .. HOLDS)
  call('HLEN', base .. OPEN)
  call('ZCARD', base .. DUE)
  call('HLEN', base .. PARKED)
  call('XLEN', base .. EVENTS)
end

-- The same for the records of an activation.
local function check_activation(key)
  call('HLEN', base .. ITEMS .. key)
  call('HLEN', base .. RESULTS .. key)
  call('SCARD', base .. WAITING .. key)
end

-- Writes what the call counted and tells, and asks for attention. Every answer is made by this function, so none is forgotten.
local function answer(reply)
  write_events()
  if new_sequence then call('HSET', base .. HEADER, 'seq', ms(new_sequence)) end
  if soonest and not ended() then
    local score = call('ZSCORE', shard .. ATTENTION, run)
    if not score or tonumber(score) > soonest then call('ZADD', shard .. ATTENTION, ms(soonest), run) end
  end
  reply[#reply + 1] = out
  reply[#reply + 1] = #out > 0 and get('digest') or ''
  reply[#reply + 1] = #out > 0 and get('priority') or ''
  return reply
end
