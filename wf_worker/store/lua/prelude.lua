-- What every script shares. The key names are put in front of this text; the script's own text follows it.
--
-- ARGV 1 base of the run's keys, 2 base of the shard's keys, 3 incarnation, 4 call id; a script's own arguments follow.
-- KEYS 1 the run's header (all keys of a call carry the same hash tag).
--
-- Three rules hold in every script:
--   check, then write   a script that fails half-way is not undone, so every read, type check and refusal comes first;
--   run again           any call may be executed again, later: it names what it acts on and then changes nothing;
--   values are opaque   texts of users are never parsed here, and no number above 2^53 is computed with.
--
-- A frame head is 21 words joined by '|':
--   place       ready held paused leased waits open failed blocked
--   purpose     why it is due, or will be: step walk open admit finish elapsed lost, or <limit>_timeout
--   rev         <sequence>.<call id>: the run's sequence number and the call that set it, compared whole
--   token owner of the claim that holds it
--   step        number of its present visit, '' before it has one
--   attempt losses failures     counts of the present visit
--   node        position of its step in the workflow document
--   parent      frame key of the frame it is a child of
--   scope       key of its scope
--   chain       enclosing concurrent activations, outermost first, each <key>.<q|c> for its interrupt policy, joined by ','
--   kind        w workflow, c item of a concurrent foreach, s of a serial one, g root of a subgraph
--   act         key of the concurrent activation that the frame controls now
--   since       when it came to its place, ms
--   looks       times it was looked for since
--   limits      what its step may take: ms of an attempt, of all attempts, in the queue, between heartbeats, joined by ','
--   began       when the present visit was claimed first, ms
--   left        ms that it may still be ready without being claimed, from `since`
--   until       which deadline of it is in `due`: attempt total queue heartbeat

local PLACE, PURPOSE, REV, TOKEN, OWNER, STEP, ATTEMPT, LOSSES, FAILURES, NODE, PARENT, SCOPE, CHAIN, KIND, ACT, SINCE, LOOKS, LIMITS, BEGAN, LEFT, UNTIL =
  1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21
-- An activation head: items, next index, the two limits, interrupt policy, controller, chain of its items, step position,
-- scope, purpose and limits of a new item, step number of its opening, revision of its opening.
local A_N, A_NEXT, A_ACTIVE, A_OUT, A_POLICY, A_CTL, A_CHAIN, A_NODE, A_SCOPE, A_PURPOSE, A_LIMITS, A_STEP, A_REV =
  1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13

local LOOK_MS = 5000      -- how soon a ready frame is looked for first
local PAGE = 64           -- frames that one call admits or releases
local SCAN = 512          -- frames that one call looks at for that
local SMALL_ITEM = 4096   -- an enclosing item up to this size comes with the claim

local base, shard, run, call_id = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local call = redis.call
local out = {}            -- messages to send: frame key, revision, step position
local clock = nil
local sequence, new_sequence = nil, nil
local heads = {}          -- frame heads read in this call
local acts = {}           -- activation heads read in this call
local header = {}         -- header fields read in this call
local soonest = nil       -- earliest moment a sweeper should look at this run
local committer = ''      -- the worker whose claim this call ends, for the trace

local function now()
  if not clock then
    local t = call('TIME')
    clock = t[1] * 1000 + math.floor(t[2] / 1000)
  end
  return clock
end

local function ms(n) return string.format('%.0f', n) end

local function split(text, pattern)
  local t, n = {}, 0
  for word in string.gmatch(text, pattern) do
    n = n + 1
    t[n] = word
  end
  return t
end

local function words(text) return split(text .. '|', '([^|]*)|') end

local function get(field)
  if header[field] == nil then header[field] = call('HGET', base .. HEADER, field) end
  return header[field]
end

local function set(field, value)
  header[field] = value
  call('HSET', base .. HEADER, field, value)
end

-- The header decides whether there is a run at all: a late call must not bring back keys of a deleted one.
local function gone()
  local status = get('status')
  return not status or status == 'deleting' or status == 'creating'
end

local function ended()
  local status = get('status')
  return status == 'completed' or status == 'failed' or status == 'cancelled'
end

local function failing() return (get('failing') or '') ~= '' end
local function paused() return get('paused') == '1' end

local function head_of(key)
  if heads[key] == nil then
    local text = call('HGET', base .. FRAMES, key)
    heads[key] = text and words(text) or false
  end
  return heads[key]
end

local function save(key, head)
  heads[key] = head
  call('HSET', base .. FRAMES, key, table.concat(head, '|'))
end

local function act_of(key)
  if acts[key] == nil then
    local text = call('HGET', base .. ACTIVATIONS, key)
    acts[key] = text and words(text) or false
  end
  return acts[key]
end

-- A revision is never given out twice, also not after the store has lost its tail: the call id tells two histories apart.
local function revision()
  new_sequence = (new_sequence or tonumber(get('seq'))) + 1
  return ms(new_sequence) .. '.' .. call_id
end

local function attend(at)
  if not soonest or at < soonest then soonest = at end
end

local function split_item(key)
  return string.match(key, '^(.*):(%d+)$')
end

local function under_hold(chain, act)
  if call('HLEN', base .. HOLDS) == 0 then return false end
  if call('HEXISTS', base .. HOLDS, 'run') == 1 then return true end
  if act and call('HEXISTS', base .. HOLDS, act) == 1 then return true end
  for a in string.gmatch(chain, '([^,.]+)%.[qc]') do
    if call('HEXISTS', base .. HOLDS, a) == 1 then return true end
  end
  return false
end

local SETS = {ready = READY, held = HELD, paused = PAUSED, leased = LEASES, waits = WAITS, failed = FAILED}

local function leave(key, head)
  local name = SETS[head[PLACE]]
  if name then call('ZREM', base .. name, key) end
  if head[UNTIL] ~= '' then
    call('ZREM', base .. DUE, key)
    head[UNTIL] = ''
  end
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

-- How long a frame that is placed may wait for a worker. The clock stands still while it is held or the run is paused.
local function queue_time(head, purpose)
  if purpose ~= 'step' or head[LIMITS] == '' then return '' end
  if head[PLACE] == 'ready' and head[LEFT] ~= '' then
    return ms(math.max(0, tonumber(head[LEFT]) - (now() - tonumber(head[SINCE]))))
  end
  if head[PLACE] == 'held' or head[PLACE] == 'paused' then return head[LEFT] end
  return limits_of(head)[L_QUEUE]
end

-- The hold that the frame's own purpose is under: admission is also stopped by a hold of the activation it would fill.
local function held_act(head) return head[PURPOSE] == 'admit' and head[ACT] or nil end

-- Makes a frame due. It gets a new revision and loses its token, so whatever was said about it before is stale.
local function place(key, head, purpose)
  head[LEFT] = queue_time(head, purpose)
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

local function due_for(head, purpose)
  return head[PURPOSE] == purpose and (head[PLACE] == 'ready' or head[PLACE] == 'held' or head[PLACE] == 'paused')
end

-- Gives a blocked controller something to do. Finishing replaces a pending admission, never the reverse.
local function signal(key, purpose)
  local head = head_of(key)
  if due_for(head, 'finish') or (purpose == 'admit' and due_for(head, 'admit')) then return end
  place(key, head, purpose)
end

-- Fills the window of an activation. The window is computed from what is there, so nothing can leak: done is the number
-- of results, waiting the items that wait for a person under the policy 'continue'. Who could admit and does not leaves
-- a signal with the controller.
local function admit(key)
  local act = act_of(key)
  local n, next_index = tonumber(act[A_N]), tonumber(act[A_NEXT])
  if next_index >= n then return end
  local done = call('HLEN', base .. RESULTS .. key)
  local waiting = act[A_POLICY] == 'c' and call('SCARD', base .. WAITING .. key) or 0
  local last = math.min(n, done + tonumber(act[A_OUT]), done + waiting + tonumber(act[A_ACTIVE]))
  if next_index >= last then return end
  if failing() or paused() or under_hold(act[A_CHAIN], nil) then
    signal(act[A_CTL], 'admit')
    return
  end
  local stop = math.min(last, next_index + PAGE)
  while next_index < stop do
    local item = new_head(act[A_NODE], act[A_CTL], act[A_SCOPE], act[A_CHAIN], 'c', act[A_LIMITS])
    place(key .. ':' .. next_index, item, act[A_PURPOSE])
    next_index = next_index + 1
  end
  act[A_NEXT] = tostring(next_index)
  call('HSET', base .. ACTIVATIONS, key, table.concat(act, '|'))
  if next_index < last then signal(act[A_CTL], 'admit') end
end

-- Moves frames whose hold or pause is gone back to ready, a page a call. The header's `release` is the rank to go on
-- from, plus one, while there is more to do.
local function release()
  if paused() then
    set('release', '')
    return
  end
  local moved, seen, rank = 0, 0, math.max(0, (tonumber(get('release')) or 1) - 1)
  for _, name in ipairs({PAUSED, HELD}) do
    local offset = name == HELD and rank or 0
    while true do
      local page = call('ZRANGE', base .. name, offset, offset + PAGE - 1)
      if #page == 0 then break end
      for _, key in ipairs(page) do
        seen = seen + 1
        if moved == PAGE or seen > SCAN then
          set('release', tostring(offset + 1))
          attend(now())
          return
        end
        local head = head_of(key)
        if name == PAUSED or not under_hold(head[CHAIN], held_act(head)) then
          moved = moved + 1
          place(key, head, head[PURPOSE])
        else
          offset = offset + 1
        end
      end
    end
  end
  if (get('release') or '') ~= '' then set('release', '') end
end

-- An answer lifts every hold over its frame, though other interrupts stay open.
local function lift(chain)
  call('HDEL', base .. HOLDS, 'run')
  for a in string.gmatch(chain, '([^,.]+)%.[qc]') do call('HDEL', base .. HOLDS, a) end
  set('release', '1')
  release()
end

local function index_status(old, new)
  local created = get('created')
  if old then call('ZREM', shard .. RUNS .. ':' .. old, run) end
  call('ZADD', shard .. RUNS .. ':' .. new, created, run)
end

local function set_status(status)
  local old = get('status')
  if old == status then return end
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
end

-- The same for the records of an activation.
local function check_activation(key)
  call('HLEN', base .. ITEMS .. key)
  call('HLEN', base .. RESULTS .. key)
  call('SCARD', base .. WAITING .. key)
end

-- Writes what the call counted and asks for attention. Every answer is made by this function, so none is forgotten.
local function answer(reply)
  if new_sequence then call('HSET', base .. HEADER, 'seq', ms(new_sequence)) end
  if soonest and not ended() then
    local score = call('ZSCORE', shard .. ATTENTION, run)
    if not score or tonumber(score) > soonest then call('ZADD', shard .. ATTENTION, ms(soonest), run) end
  end
  reply[#reply + 1] = out
  reply[#reply + 1] = #out > 0 and get('digest') or ''
  return reply
end

-- ---- reading

local function item_of(key, small_only)
  local act, index = split_item(key)
  if small_only and call('HSTRLEN', base .. ITEMS .. act, index) > SMALL_ITEM then return '~' end
  local value = call('HGET', base .. ITEMS .. act, index)
  return value and ('=' .. value) or false
end

-- The frame and its ancestors, innermost first: key, head, body, and for items of a concurrent foreach the activation's
-- revision, opening step and template, the item and what a reader of its lineage sees.
local function ancestry(key)
  local frames, first = {}, true
  while key and key ~= '' do
    local head = head_of(key)
    if not head then break end
    local frame = {key, table.concat(head, '|'), call('HGET', base .. BODIES, key)}
    if head[KIND] == 'c' then
      local act_key = split_item(key)
      local act = act_of(act_key)
      frame[4] = act and act[A_REV] or false
      frame[5] = act and act[A_STEP] or false
      frame[6] = call('HGET', base .. ACTIVATIONS, act_key .. ':t')
      frame[7] = item_of(key, not first)
      frame[8] = call('HGETALL', base .. OVERLAY .. key)
    end
    frames[#frames + 1] = frame
    if #frames > 200 then break end
    key, first = head[PARENT], false
  end
  return frames
end

local function fields_of(scope, names, count)
  if count < 0 then return call('HGETALL', base .. STATE .. scope) end
  if count == 0 then return {} end
  return call('HMGET', base .. STATE .. scope, unpack(names))
end

-- The input of a scope: a child's lies apart, the root's in the header.
local function input_of(scope)
  return call('HGET', base .. SCOPES, scope) or get('input')
end

-- from: position in ARGV of: whether the input is wanted, how many names (-1 for all fields), the names.
local function slice(key, from)
  local head, names = head_of(key), {}
  local count = tonumber(ARGV[from + 1])
  for i = 1, count do names[i] = ARGV[from + 1 + i] end
  return {
    ancestry(key), fields_of(head[SCOPE], names, count), ARGV[from] == '1' and input_of(head[SCOPE]) or false,
    get('run_id'), get('digest'), get('max_steps'), get('steps'), get('trace') or 'full',
  }
end

-- ---- claims

-- Gives a ready frame to a token. A handler visit takes its step number with its first claim and keeps it over attempts.
local function grant(key, head, token, owner, lease_ms)
  local denied = '0'
  if head[PURPOSE] == 'step' then
    if head[STEP] == '' then
      local steps = tonumber(get('steps'))
      if steps >= tonumber(get('max_steps')) then
        denied = '1'
      else
        set('steps', ms(steps + 1))
        head[STEP] = ms(steps + 1)
      end
    end
    if denied == '0' then head[ATTEMPT] = tostring(tonumber(head[ATTEMPT]) + 1) end
    if head[BEGAN] == '' then head[BEGAN] = ms(now()) end
  end
  leave(key, head)
  head[PLACE], head[TOKEN], head[OWNER], head[REV], head[SINCE] = 'leased', token, owner, revision(), ms(now())
  call('ZADD', base .. LEASES, ms(now() + lease_ms), key)
  attend(now() + lease_ms)
  if head[PURPOSE] == 'step' and denied == '0' then watch_handler(key, head) end
  save(key, head)
  return denied
end

-- What a claimer is told: the words of its claim and the slice. from: position of what the slice reads.
local function granted(word, key, head, denied, from)
  local deadline = head[PURPOSE] == 'step' and denied == '0' and handler_deadline(head)
  local beat = call('HGET', base .. BEATS, key)
  local step, said = string.match(beat or '', '^(%d*)|(.*)$')
  return answer({
    word, head[PURPOSE], head[STEP], head[ATTEMPT], head[LOSSES], head[FAILURES], denied, head[REV],
    deadline and ms(deadline) or '', step == head[STEP] and said or '', slice(key, from),
  })
end

local function holds_token(head, token)
  return head and head[PLACE] == 'leased' and head[TOKEN] ~= '' and head[TOKEN] == token
end

-- ---- transitions

-- Where operation i of a list begins with its name and its argument count.
local function each_operation(from, count, visit)
  local at = from
  for _ = 1, count do
    local name, size = ARGV[at], tonumber(ARGV[at + 1])
    local refusal = visit(name, at + 2, size)
    if refusal then return refusal end
    at = at + 2 + size
  end
end

-- Everything that could make a transition fail, asked before anything of it is written.
local function check_operations(from, count, steps)
  if tonumber(get('steps')) + steps > tonumber(get('max_steps')) then
    return {'budget', ms(tonumber(get('max_steps')) - tonumber(get('steps'))), get('max_steps')}
  end
  check_types()
  call('HLEN', base .. BODIES)
  call('HLEN', base .. BEATS)
  call('HLEN', base .. ACTIVATIONS)
  call('HLEN', base .. CLOSED)
  call('HLEN', base .. SCOPES)
  call('SCARD', base .. NAMES)
  call('XLEN', base .. TRACE)
  return each_operation(from, count, function(name, at)
    if name == 'open' or name == 'arrive' then check_activation(ARGV[at]) end
    if name == 'writes' or name == 'arrive' then
      local frame = ARGV[name == 'writes' and at or at + 2]
      call('STRLEN', base .. LINEAGE .. frame)
      call('HLEN', base .. OVERLAY .. frame)
    end
    if name == 'fields' or name == 'scope' or name == 'unscope' then call('HLEN', base .. STATE .. ARGV[at]) end
    if name == 'interrupt' then
      local head = head_of(ARGV[at])
      local near = head and string.match(head[CHAIN], '([^,.]+)%.[qc]$')
      if near then check_activation(near) end
    end
    if name == 'open' and ARGV[at + 13] == '1' and call('HLEN', base .. ITEMS .. ARGV[at]) ~= tonumber(ARGV[at + 1]) then
      return {'unstaged', ARGV[at]}
    elseif name == 'staged' and call('STRLEN', base .. STAGED .. ARGV[at]) ~= tonumber(ARGV[at + 1]) then
      return {'unstaged', ARGV[at]}
    elseif name == 'arrive' then
      local act = act_of(ARGV[at])
      if not act then return {'damaged', ACTIVATIONS .. ' ' .. ARGV[at]} end
      if not head_of(act[A_CTL]) then return {'damaged', FRAMES .. ' ' .. act[A_CTL]} end
      if call('HEXISTS', base .. RESULTS .. ARGV[at], ARGV[at + 1]) == 1 then return {'damaged', RESULTS .. ARGV[at] .. ' ' .. ARGV[at + 1]} end
    elseif (name == 'place' or name == 'block' or name == 'wait' or name == 'retry') and not head_of(ARGV[at]) then
      local made = each_operation(from, count, function(other, where)
        if other == 'frame' and ARGV[where] == ARGV[at] then return {'made'} end
      end)
      if not made then return {'damaged', FRAMES .. ' ' .. ARGV[at]} end
    end
  end)
end

local function drop_activation(key)
  call('UNLINK', base .. ITEMS .. key, base .. RESULTS .. key, base .. WAITING .. key)
  call('HDEL', base .. ACTIVATIONS, key, key .. ':t')
  call('SREM', base .. NAMES, key)
  acts[key] = false
end

-- A frame goes, and with it a visit that it controls still: its foreach failed, and a policy around it took that in.
local function drop_frame(key)
  local head = head_of(key)
  if not head then return end
  if head[ACT] ~= '' then drop_activation(head[ACT]) end
  leave(key, head)
  call('HDEL', base .. FRAMES, key)
  call('HDEL', base .. BODIES, key)
  call('HDEL', base .. BEATS, key)
  heads[key] = false
end

-- A field that named a large value lets go of it when it is written again.
local function drop_large(scope, field)
  local length = call('HSTRLEN', base .. STATE .. scope, field)
  if length == 0 or length > 128 then return end
  local name = string.match(call('HGET', base .. STATE .. scope, field), '^@(%S+) %d+$')
  if name then
    call('DEL', base .. STAGED .. name)
    call('SREM', base .. NAMES, STAGED .. name)
  end
end

local function number_of(text, steps_before)
  if string.sub(text, 1, 1) == '+' then return ms(steps_before + tonumber(string.sub(text, 2))) end
  return text
end

-- Takes an interrupt out of everything that knows it. It has no deadline any more, and its item counts as active again.
local function close_interrupt(number, o)
  call('HDEL', base .. OPEN, number, 'b' .. number)
  call('ZREM', shard .. INBOX, run .. '#' .. number)
  if o[4] ~= '' then call('SREM', base .. WAITING .. o[4], o[5]) end
  if o[7] ~= '' then call('ZREM', base .. DUE, 'i' .. number) end
end

-- By the server's clock an interrupt that is out of time takes no answer, also before anybody has closed it.
local function out_of_time(o) return o[7] ~= '' and tonumber(o[7]) <= now() end

-- after: ms in which it takes answers, or ''
local function open_interrupt(key, number, record, after)
  local head = head_of(key)
  leave(key, head)
  head[PLACE], head[PURPOSE], head[TOKEN], head[OWNER], head[REV], head[SINCE] = 'open', '', '', '', revision(), ms(now())
  save(key, head)
  -- The interrupt holds the outermost activation reached from it outwards before one that lets others continue; the
  -- whole run if none does, nothing if the innermost does.
  local chain = {}
  for act, policy in string.gmatch(head[CHAIN], '([^,.]+)%.([qc])') do chain[#chain + 1] = {act, policy} end
  local hold, i = 'run', #chain
  while i >= 1 do
    if chain[i][2] == 'c' then
      hold = i < #chain and chain[i + 1][1] or ''
      break
    end
    i = i - 1
  end
  -- The nearest concurrent item around it leaves max_active while it waits, if its foreach lets others continue.
  local near_act, near_index, at = '', '', key
  while at ~= '' do
    local h = head_of(at)
    if not h then break end
    if h[KIND] == 'c' then
      near_act, near_index = split_item(at)
      break
    end
    at = h[PARENT]
  end
  local expiry = ''
  if after ~= '' then
    expiry = ms(now() + tonumber(after))
    call('ZADD', base .. DUE, expiry, 'i' .. number)
    attend(tonumber(expiry))
  end
  call('HSET', base .. OPEN, number, table.concat({key, head[REV], hold, near_act, near_index, ms(now()), expiry}, '|'), 'b' .. number, record)
  call('ZADD', shard .. INBOX, ms(now()), run .. '#' .. number)
  if hold ~= '' then call('HSET', base .. HOLDS, hold, number) end
  if near_act ~= '' then
    local act = act_of(near_act)
    if act and act[A_POLICY] == 'c' then
      call('SADD', base .. WAITING .. near_act, near_index)
      admit(near_act)
    end
  end
end

local function apply_operations(from, count, steps)
  local before = tonumber(get('steps'))
  if steps > 0 then set('steps', ms(before + steps)) end
  each_operation(from, count, function(name, at, size)
    local a = ARGV
    if name == 'frame' then          -- key, node, parent, scope, chain, kind, body
      local head = head_of(a[at])
      if head then
        head[NODE] = a[at + 1]
      else
        head = new_head(a[at + 1], a[at + 2], a[at + 3], a[at + 4], a[at + 5], '')
        head[REV] = revision()
      end
      save(a[at], head)
      call('HSET', base .. BODIES, a[at], a[at + 6])
    elseif name == 'place' then      -- key, purpose, limits
      local head = head_of(a[at])
      fresh(head, a[at + 2])
      place(a[at], head, a[at + 1])
    elseif name == 'block' then      -- key
      local head = head_of(a[at])
      leave(a[at], head)
      head[PLACE], head[PURPOSE], head[TOKEN], head[OWNER], head[REV] = 'blocked', '', '', '', revision()
      save(a[at], head)
    elseif name == 'remove' then     -- key
      drop_frame(a[at])
    elseif name == 'writes' then     -- frame key of the lineage, records, then path and visible value by turns
      call('APPEND', base .. LINEAGE .. a[at], a[at + 1])
      local order = size > 2 and string.match(revision(), '^%d+')
      for i = 2, size - 1, 2 do
        call('HSET', base .. OVERLAY .. a[at], a[at + i], order .. '.' .. i .. '|' .. a[at + i + 1])
      end
    elseif name == 'fields' then     -- scope key, then field and value by turns
      local set_fields = {}
      for i = 1, size - 1 do set_fields[i] = a[at + i] end
      for i = 1, #set_fields, 2 do drop_large(a[at], set_fields[i]) end
      for i = 1, #set_fields, 1000 do
        call('HSET', base .. STATE .. a[at], unpack(set_fields, i, math.min(i + 999, #set_fields)))
      end
      call('SADD', base .. NAMES, STATE .. a[at])
    elseif name == 'scope' then      -- scope key, input, then field and value by turns
      call('HSET', base .. SCOPES, a[at], a[at + 1])
      for i = 2, size - 1, 2 do call('HSET', base .. STATE .. a[at], a[at + i], a[at + i + 1]) end
      call('SADD', base .. NAMES, STATE .. a[at])
    elseif name == 'unscope' then    -- scope key
      for _, field in ipairs(call('HKEYS', base .. STATE .. a[at])) do drop_large(a[at], field) end
      call('DEL', base .. STATE .. a[at])
      call('HDEL', base .. SCOPES, a[at])
      call('SREM', base .. NAMES, STATE .. a[at])
    elseif name == 'staged' then     -- name, length: a staged value that a field of this transition names
      call('SADD', base .. NAMES, STAGED .. a[at])
    elseif name == 'open' then       -- key, n, max_active, max_outstanding, policy, controller, chain, node, scope, purpose, limits, step, template, staged, items
      local key, rev = a[at], revision()
      local controller = head_of(a[at + 5])
      controller[ACT] = key
      save(a[at + 5], controller)
      acts[key] = {a[at + 1], '0', a[at + 2], a[at + 3], a[at + 4], a[at + 5], a[at + 6], a[at + 7], a[at + 8], a[at + 9], a[at + 10], number_of(a[at + 11], before), rev}
      call('HSET', base .. ACTIVATIONS, key, table.concat(acts[key], '|'), key .. ':t', a[at + 12])
      call('SADD', base .. NAMES, key)
      for i = 14, size - 1 do call('HSET', base .. ITEMS .. key, tostring(i - 14), a[at + i]) end
      admit(key)
    elseif name == 'arrive' then     -- activation, index, frame key, status, error record
      local key, index, frame = a[at], a[at + 1], a[at + 2]
      local kept = a[at + 3] == 'ok' and (call('GET', base .. LINEAGE .. frame) or '') or a[at + 4]
      call('HSET', base .. RESULTS .. key, index, a[at + 3] .. '|' .. revision() .. '\n' .. kept)
      call('DEL', base .. LINEAGE .. frame, base .. OVERLAY .. frame)
      call('HDEL', base .. ITEMS .. key, index)
      call('SREM', base .. WAITING .. key, index)
      drop_frame(frame)
      local act = act_of(key)
      if call('HLEN', base .. RESULTS .. key) >= tonumber(act[A_N]) then
        signal(act[A_CTL], 'finish')
      else
        admit(key)
      end
    elseif name == 'close' then      -- activation, controller key
      drop_activation(a[at])
      local head = head_of(a[at + 1])
      if head then
        head[ACT] = ''
        save(a[at + 1], head)
      end
    elseif name == 'interrupt' then  -- frame key, step, record, ms in which it takes answers or ''
      open_interrupt(a[at], number_of(a[at + 1], before), a[at + 2], a[at + 3])
    elseif name == 'wait' then       -- frame key, step, when: ms since the epoch, or '+' and ms from now
      local head = head_of(a[at])
      fresh(head, '')
      head[STEP] = number_of(a[at + 1], before)
      local after = string.match(a[at + 2], '^%+(%d+)$')
      wait_for(a[at], head, 'elapsed', after and now() + tonumber(after) or tonumber(a[at + 2]))
    elseif name == 'retry' then      -- frame key, ms from now: the same visit, one failure more
      local head = head_of(a[at])
      head[FAILURES] = tostring(tonumber(head[FAILURES]) + 1)
      local due, total = now() + tonumber(a[at + 1]), head[LIMITS] ~= '' and limits_of(head)[L_TOTAL] or ''
      if total ~= '' and tonumber(head[BEGAN]) + tonumber(total) <= due then
        place(a[at], head, 'total_timeout')   -- the next attempt would come too late
      else
        wait_for(a[at], head, 'step', due)
      end
    elseif name == 'complete' then   -- outcome, output
      if not failing() then
        call('HSET', base .. HEADER, 'outcome', a[at], 'output', a[at + 1])
        finish('completed')
      end
    elseif name == 'fail' then       -- frame key, order, error record, purpose (or '': it cannot) and limits should the run go on
      -- '!' sorts before every order, so the flag is never empty; of several failures the smallest order is kept.
      local order = '!' .. a[at + 1]
      if not failing() or order < get('failing') then
        set('failing', order)
        set('fail_error', a[at + 2])
      end
      if a[at + 3] == '' then set('damaged', '1') end
      local head = head_of(a[at])
      if head then
        leave(a[at], head)
        head[PLACE], head[TOKEN], head[OWNER], head[REV] = 'failed', '', '', revision()
        head[PURPOSE], head[LIMITS] = a[at + 3], a[at + 4]
        call('ZADD', base .. FAILED, ms(now()), a[at])
        save(a[at], head)
      end
    elseif name == 'trace' then      -- step, entry
      local ordinal = (tonumber(get('traced')) or 0) + 1
      set('traced', ms(ordinal))
      call('XADD', base .. TRACE, ms(ordinal) .. '-0', 'n', number_of(a[at], before), 'w', committer, 'e', a[at + 1])
    end
  end)
end
