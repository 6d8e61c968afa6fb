-- Transitions: every operation of one, checked as a whole and then applied.

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
  if steps > 0 and tonumber(get('steps')) + steps > tonumber(get('max_steps')) then
    return {'budget', ms(tonumber(get('max_steps')) - tonumber(get('steps'))), get('max_steps')}
  end
  check_types()
  call('HLEN', base .. BODIES)
  call('HLEN', base .. BEATS)
  call('HLEN', base .. ACTIVATIONS)
  call('HLEN', base .. CLOSED)
  call('HLEN', base .. SCOPES)
  call('HLEN', base .. JOURNAL)
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

-- The journal keeps what a field of the root scope held at the latest mark, before it is written for the first time since.
-- Whether it was kept just now: then a large value that the field named stays for as long as the run. What would be too
-- much is noted as lost.
local function keep_before(field)
  local slot = (get('marks') or '0') .. '|' .. field
  if call('HEXISTS', base .. JOURNAL, slot) == 1 then return false end
  local value = call('HGET', base .. STATE .. ROOT_SCOPE, field) or '-'
  local large = #value <= 128 and string.match(value, '^@%S+ (%d+)$')
  local kept = (tonumber(get('kept')) or 0) + (large and tonumber(large) or #value)
  if kept > JOURNAL_BYTES then value = '!' else set('kept', ms(kept)) end
  call('HSET', base .. JOURNAL, slot, value)
  return value ~= '!'
end

-- The first time that the root frame comes to a step is a mark, under which the journal keeps the state as it is then.
local function reach(position, origin, outcome)
  if call('HEXISTS', base .. JOURNAL, '@' .. position) == 1 then return end
  local mark = ms((tonumber(get('marks')) or 0) + 1)
  set('marks', mark)
  call('HSET', base .. JOURNAL, '@' .. position, table.concat({mark, origin, outcome}, '|'))
end

-- at: position in ARGV of the scope's key; field and value by turns follow.
local function write_fields(at, size)
  local scope, pairs_ = ARGV[at], {}
  for i = 1, size - 1 do pairs_[i] = ARGV[at + i] end
  for i = 1, #pairs_, 2 do
    if scope ~= ROOT_SCOPE or not keep_before(pairs_[i]) then drop_large(scope, pairs_[i]) end
  end
  for i = 1, #pairs_, 1000 do
    call('HSET', base .. STATE .. scope, unpack(pairs_, i, math.min(i + 999, #pairs_)))
  end
  call('SADD', base .. NAMES, STATE .. scope)
end

local function close_scope(scope)
  for _, field in ipairs(call('HKEYS', base .. STATE .. scope)) do drop_large(scope, field) end
  call('DEL', base .. STATE .. scope)
  call('HDEL', base .. SCOPES, scope)
  call('SREM', base .. NAMES, STATE .. scope)
end

-- The handler failed and is called again after some ms, unless that would be too late.
local function try_again(key, after)
  local head = head_of(key)
  tell_of('attempt_failed', key, head, head[ATTEMPT], head[PURPOSE])
  head[FAILURES] = tostring(tonumber(head[FAILURES]) + 1)
  local due, total = now() + after, head[LIMITS] ~= '' and limits_of(head)[L_TOTAL] or ''
  if total ~= '' and tonumber(head[BEGAN]) + tonumber(total) <= due then
    place(key, head, 'total_timeout')
  else
    wait_for(key, head, 'step', due)
  end
end

local function number_of(text, steps_before)
  if string.sub(text, 1, 1) == '+' then return ms(steps_before + tonumber(string.sub(text, 2))) end
  return text
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
    elseif name == 'remove' then     -- key, 1 for an item that failed
      local head = head_of(a[at])
      if head and a[at + 1] == '1' then tell_of('item_failed', a[at], head) end
      drop_frame(a[at])
    elseif name == 'reach' then      -- position of a root step, of the step before it, the outcome of that one
      reach(a[at], a[at + 1], a[at + 2])
    elseif name == 'writes' then     -- frame key of the lineage, records, then path and visible value by turns
      call('APPEND', base .. LINEAGE .. a[at], a[at + 1])
      local order = size > 2 and string.match(revision(), '^%d+')
      for i = 2, size - 1, 2 do
        call('HSET', base .. OVERLAY .. a[at], a[at + i], order .. '.' .. i .. '|' .. a[at + i + 1])
      end
    elseif name == 'fields' then     -- scope key, then field and value by turns
      write_fields(at, size)
    elseif name == 'scope' then      -- scope key, input, then field and value by turns
      call('HSET', base .. SCOPES, a[at], a[at + 1])
      for i = 2, size - 1, 2 do call('HSET', base .. STATE .. a[at], a[at + i], a[at + i + 1]) end
      call('SADD', base .. NAMES, STATE .. a[at])
    elseif name == 'unscope' then    -- scope key
      close_scope(a[at])
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
      tell('foreach_opened', acts[key][A_STEP], controller[NODE], a[at + 5], a[at + 1])
      for i = 14, size - 1 do call('HSET', base .. ITEMS .. key, tostring(i - 14), a[at + i]) end
      admit(key)
    elseif name == 'arrive' then     -- activation, index, frame key, status, error record
      local key, index, frame = a[at], a[at + 1], a[at + 2]
      local kept = a[at + 3] == 'ok' and (call('GET', base .. LINEAGE .. frame) or '') or a[at + 4]
      call('HSET', base .. RESULTS .. key, index, a[at + 3] .. '|' .. revision() .. '\n' .. kept)
      call('DEL', base .. LINEAGE .. frame, base .. OVERLAY .. frame)
      call('HDEL', base .. ITEMS .. key, index)
      if a[at + 3] ~= 'ok' then tell_of('item_failed', frame, head_of(frame)) end
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
      try_again(a[at], tonumber(a[at + 1]))
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
        tell_of('step_failed', a[at], head)
        call('ZADD', base .. FAILED, ms(now()), a[at])
        save(a[at], head)
      end
    elseif name == 'step' then       -- step, position, frame key, position of the next step or '', outcome
      tell('s', number_of(a[at], before), a[at + 1], a[at + 2], a[at + 3], a[at + 4])
    elseif name == 'trace' then      -- step, entry
      local ordinal = (tonumber(get('traced')) or 0) + 1
      set('traced', ms(ordinal))
      call('XADD', base .. TRACE, ms(ordinal) .. '-0', 'n', number_of(a[at], before), 'w', committer, 'e', a[at + 1])
    end
  end)
end
