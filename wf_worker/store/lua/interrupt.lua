-- interrupt: reads one open interrupt with the slice its answer needs. Changes nothing.
-- ARGV 5 step number, 6 whether the input is wanted, 7 number of state fields, 8.. their names
-- answers open <head> <record> <slice> | answered <head> | gone | over | closed | expired
if gone() then return answer({'gone'}) end
local number = ARGV[5]
local opened = call('HGET', base .. OPEN, number)
if not opened then
  local closed = call('HGET', base .. CLOSED, number)
  if closed then return answer({'answered', closed}) end
  return answer({ended() and 'over' or 'closed', get('status')})
end
if ended() or failing() then return answer({'over', get('status')}) end
local o = words(opened)
if out_of_time(o) then return answer({'expired'}) end
local key = o[1]
if not head_of(key) then return answer({'damaged', FRAMES .. ' ' .. key}) end
return answer({'open', opened, call('HGET', base .. OPEN, 'b' .. number), slice(key, 6)})
