-- expire: nobody answered an interrupt in time. It takes no answer any more, and the next claimer asks the kernel.
-- ARGV 5 step number, 6 time of its expiry as it was read
-- answers expired | gone | refused | damaged <record>
if gone() then return answer({'gone'}) end
local number = ARGV[5]
local opened = call('HGET', base .. OPEN, number)
local o = opened and words(opened)
if ended() or failing() or not o or o[7] ~= ARGV[6] or not out_of_time(o) then return answer({'refused'}) end
local key, head = o[1], head_of(o[1])
if not head or head[PLACE] ~= 'open' then return answer({'damaged', FRAMES .. ' ' .. key}) end
check_types()
call('HLEN', base .. CLOSED)
if o[4] ~= '' then check_activation(o[4]) end
close_interrupt(number, o, 'expired')
call('HSET', base .. CLOSED, number, table.concat({call_id, '', 'expired', ms(now())}, '|'))
-- Lifted first, as by an answer: the frame itself is not under the hold that it set.
head[PLACE], head[REV] = 'blocked', revision()
save(key, head)
lift(head[CHAIN])
fresh(head, '')
head[STEP] = number
place(key, head, 'expired')
settle()
return answer({'expired'})
