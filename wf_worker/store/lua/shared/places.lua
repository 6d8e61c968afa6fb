-- Places: where a live frame stands, how it comes there, and by when it must have left.

local SETS = {ready = READY, held = HELD, paused = PAUSED, leased = LEASES, waits = WAITS, failed = FAILED}

local function leave(key, head)
  local name = SETS[head[PLACE]]
  if name then call('ZREM', base .. name, key) end
  if head[UNTIL] ~= '' then
    call('ZREM', base .. DUE, key)
    head[UNTIL] = ''
  end
  if head[OWNER] == '!parked' then
    call('HDEL', base .. PARKED, key)
    head[OWNER] = ''
  end
end

-- A ready frame that nobody serves is shown as such; what: the capability, as people are told.
local function park(key, head, what)
  head[OWNER] = '!parked'
  call('HSET', base .. PARKED, key, what)
  call('SADD', shard .. PARKED_RUNS, run)
end

-- ---- deadlines

local L_ATTEMPT, L_TOTAL, L_QUEUE, L_BEAT = 1, 2, 3, 4
local function limits_of(head) return split(head[LIMITS] .. ',', '([^,]*),') end

local function watch(key, head, which, at)
  head[UNTIL] = which
  call('ZADD', base .. DUE, ms(at), key)
  attend(at)
end

-- When a running handler is out of time: its attempt, all attempts together; nil without a limit.
local function handler_deadline(head)
  if head[LIMITS] == '' then return nil end
  local limits, at, which = limits_of(head), nil, nil
  if limits[L_ATTEMPT] ~= '' then at, which = tonumber(head[SINCE]) + tonumber(limits[L_ATTEMPT]), 'attempt' end
  if limits[L_TOTAL] ~= '' then
    local total = tonumber(head[BEGAN]) + tonumber(limits[L_TOTAL])
    if not at or total < at then at, which = total, 'total' end
  end
  return at, which
end

-- The deadline of a running handler that gave a sign of life just now.
local function watch_handler(key, head)
  if head[LIMITS] == '' then return end
  local at, which = handler_deadline(head)
  local beat = limits_of(head)[L_BEAT]
  if beat ~= '' and (not at or now() + tonumber(beat) < at) then at, which = now() + tonumber(beat), 'heartbeat' end
  if at then watch(key, head, which, at) end
end

-- Since when a ready frame cannot be claimed: the run is paused, or an interrupt that opened then holds it. now() if it can.
local function stopped_at(head)
  local at = now()
  if paused() then at = math.min(at, tonumber(get('paused_at') or at)) end
  if call('HLEN', base .. HOLDS) > 0 then
    local over = split(head[CHAIN], '([^,.]+)%.[qc]')
    over[#over + 1] = 'run'
    for _, held in ipairs(over) do
      local number = call('HGET', base .. HOLDS, held)
      local opened = number and call('HGET', base .. OPEN, number)
      if opened then at = math.min(at, tonumber(words(opened)[6])) end
    end
  end
  return at
end

-- How long a frame that is placed may wait for a worker. The clock stands still while it is held or the run is paused.
local function queue_time(head, purpose)
  if purpose ~= 'step' or head[LIMITS] == '' then return '' end
  if head[PLACE] == 'ready' and head[LEFT] ~= '' then
    return ms(math.max(0, tonumber(head[LEFT]) - math.max(0, stopped_at(head) - tonumber(head[SINCE]))))
  end
  if head[PLACE] == 'held' or head[PLACE] == 'paused' then return head[LEFT] end
  return limits_of(head)[L_QUEUE]
end

-- The hold that the frame's own purpose is under: admission is also stopped by a hold of the activation it would fill.
local function held_act(head) return head[PURPOSE] == 'admit' and head[ACT] or nil end

-- Makes a frame due. It gets a new revision and loses its token, so whatever was said about it before is stale.
-- left: how long it may be ready unclaimed, where that is not what its step says.
local function place(key, head, purpose, left)
  head[LEFT] = left or queue_time(head, purpose)
  leave(key, head)
  head[PURPOSE], head[TOKEN], head[OWNER], head[REV] = purpose, '', '', revision()
  head[SINCE], head[LOOKS] = ms(now()), '0'
  if paused() then
    head[PLACE] = 'paused'
    call('ZADD', base .. PAUSED, ms(now()), key)
  elseif under_hold(head[CHAIN], held_act(head)) then
    head[PLACE] = 'held'
    call('ZADD', base .. HELD, ms(now()), key)
  else
    head[PLACE] = 'ready'
    call('ZADD', base .. READY, ms(now() + LOOK_MS), key)
    attend(now() + LOOK_MS)
    if head[LEFT] ~= '' then watch(key, head, 'queue', now() + tonumber(head[LEFT])) end
    if not failing() then
      local n = #out
      out[n + 1], out[n + 2], out[n + 3] = key, head[REV], head[NODE]
    end
  end
  save(key, head)
end

-- Makes a frame due at a time, at once where that has passed.
local function wait_for(key, head, purpose, due)
  if due <= now() then
    place(key, head, purpose)
    return
  end
  leave(key, head)
  head[PLACE], head[PURPOSE], head[TOKEN], head[OWNER], head[REV] = 'waits', purpose, '', '', revision()
  head[SINCE], head[LOOKS], head[LEFT] = ms(now()), '0', ''
  call('ZADD', base .. WAITS, ms(due), key)
  attend(due)
  save(key, head)
end

-- A new visit of a step begins: it has no number and no history yet.
local function fresh(head, limits)
  head[STEP], head[ATTEMPT], head[LOSSES], head[FAILURES] = '', '0', '0', '0'
  head[LIMITS], head[BEGAN], head[LEFT] = limits, '', ''
end

-- A frame that is in no place yet.
local function new_head(node, parent, scope, chain, kind, limits)
  return {
    'blocked', '', '', '', '', '', '0', '0', '0', node, parent, scope, chain, kind, '', ms(now()), '0', limits, '', '', '',
  }
end
