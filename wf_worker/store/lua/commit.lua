-- commit: applies a transition under a claim, or nothing of it.
-- ARGV 5 frame key, 6 token, 7 steps it walked, 8 token of a next claim or '', 9 its owner, 10 its lease (ms),
--      11 whether the input is wanted, 12 number of state fields (-1 for all), 13.. their names,
--      then: number of operations, and each as name, argument count, arguments
-- answers done | claimed <as granted> | again | late <which deadline> | gone | over | stale | budget <left> <max> | unstaged <name> | damaged <record>
-- Run again: a frame whose revision this call set answers again; one that has moved on since answers stale.
if gone() then return answer({'gone'}) end
local key, token, steps, next_token = ARGV[5], ARGV[6], tonumber(ARGV[7]), ARGV[8]
local from = 13 + math.max(0, tonumber(ARGV[12]))
local count = tonumber(ARGV[from])
local head = head_of(key)
if head and string.sub(head[REV], -#call_id - 1) == '.' .. call_id then return answer({'again'}) end
if ended() then return answer({'over', get('status')}) end
if not holds_token(head, token) then return answer({'stale'}) end
-- What comes too late counts no more, also before anybody has noticed that it is late.
if head[UNTIL] ~= '' then
  local deadline = call('ZSCORE', base .. DUE, key)
  if deadline and tonumber(deadline) <= now() then
    check_types()
    local which = head[UNTIL]
    take_claim(head, which .. '_timeout')
    place(key, head, which .. '_timeout')
    settle()
    return answer({'late', which})
  end
end
local refusal = check_operations(from + 1, count, steps)
if refusal then return answer(refusal) end
committer = head[OWNER]
leave(key, head)
head[PLACE], head[TOKEN], head[OWNER], head[REV] = 'blocked', '', '', revision()
save(key, head)
apply_operations(from + 1, count, steps)
settle()
head = head_of(key)
if next_token ~= '' and head and head[PLACE] == 'ready' and (head[PURPOSE] == 'step' or head[PURPOSE] == 'walk') and not failing() and not ended() then
  local kept = {}
  for i = 1, #out, 3 do
    if out[i] ~= key then
      kept[#kept + 1], kept[#kept + 2], kept[#kept + 3] = out[i], out[i + 1], out[i + 2]
    end
  end
  out = kept
  local denied = grant(key, head, next_token, ARGV[9], tonumber(ARGV[10]))
  return granted('claimed', key, head, denied, 11)
end
return answer({'done'})
