-- Windows and holds: which items of a concurrent foreach may be under way, and what an interrupt keeps from going on.

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
