-- resume: one answer to one open interrupt. Of any number of answers exactly one closes it.
-- ARGV 5 step number, 6 revision of the interrupt, 7 idempotency key or '', 8 digest of the answer, 9 steps it walked,
--      10 number of operations, then each as name, argument count, arguments
-- answers resumed <time> | again <first answer> | answered <first answer> | gone | over | closed | stale <revision> | expired
--       | budget <left> <max> | damaged <record>
if gone() then return answer({'gone'}) end
local number = ARGV[5]
local closed = call('HGET', base .. CLOSED, number)
if closed then
  local first = words(closed)
  if first[1] == call_id or (ARGV[7] ~= '' and first[2] == ARGV[7] and first[3] == ARGV[8]) then return answer({'again', closed}) end
  return answer({'answered', closed})
end
if ended() or failing() then return answer({'over', get('status')}) end
local opened = call('HGET', base .. OPEN, number)
if not opened then return answer({'closed', get('status')}) end
local o = words(opened)
if o[2] ~= ARGV[6] then return answer({'stale', o[2]}) end
if out_of_time(o) then return answer({'expired'}) end
local key, head = o[1], head_of(o[1])
if not head or head[PLACE] ~= 'open' then return answer({'damaged', FRAMES .. ' ' .. key}) end
local steps, count = tonumber(ARGV[9]), tonumber(ARGV[10])
local refusal = check_operations(11, count, steps)
if refusal then return answer(refusal) end
close_interrupt(number, o, 'answered')
call('HSET', base .. CLOSED, number, table.concat({call_id, ARGV[7], ARGV[8], ms(now())}, '|'))
head[PLACE], head[REV] = 'blocked', revision()
save(key, head)
-- Lifted first: what the answer places is not under the hold that it takes away.
lift(head[CHAIN])
apply_operations(11, count, steps)
settle()
return answer({'resumed', ms(now())})
