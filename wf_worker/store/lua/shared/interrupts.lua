-- Interrupts: opened by a transition, closed by one answer or by time.

-- The step that people see asking: where a child workflow asks, the one that entered it.
local function asking_step(key)
  local head = head_of(key)
  local at = head
  while at and at[KIND] ~= 'g' do at = at[PARENT] ~= '' and head_of(at[PARENT]) end
  local caller = at and head_of(at[PARENT])
  return caller and caller[NODE] or head and head[NODE] or ''
end

-- Takes an interrupt out of everything that knows it. It has no deadline any more, and its item counts as active again.
local function close_interrupt(number, o, how)
  tell('interrupt_closed', number, asking_step(o[1]), o[1], how)
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
  tell('interrupt_opened', number, asking_step(key), key, '')
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
