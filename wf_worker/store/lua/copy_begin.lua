-- copy_begin: the header of a run that will be made from the records of another one, before they are copied. Until
-- copy_open opens it, the run is gone to everybody else; what is not opened within ten minutes is removed.
-- ARGV 5 latest time (ms) this may still happen, 6 run id, 7 sequence of the source, 8 number of header fields, then
--      field and value by turns
-- answers begun | opened: it had been opened before | moved: it was begun from another state of its source
--       | exists <incarnation> <status> | gone: it is being removed | late <now>
-- Run again: the header is there, and it answers the same.
local OPEN_WITHIN = 600000
local status = get('status')
if status == 'creating' then return answer({get('from_seq') == ARGV[7] and 'begun' or 'moved'}) end
if status then return answer({status == 'deleting' and 'gone' or 'opened'}) end
if now() > tonumber(ARGV[5]) then return answer({'late', ms(now())}) end
local other, used = in_the_way(ARGV[6], 'reject')
if other then return answer({'exists', other, used}) end
local fields = {}
for i = 1, 2 * tonumber(ARGV[8]) do fields[i] = ARGV[8 + i] end
for i = 1, #fields, 1000 do call('HSET', base .. HEADER, unpack(fields, i, math.min(i + 999, #fields))) end
header = {}
set('run_id', ARGV[6])
set('from_seq', ARGV[7])
set('open_by', ms(now() + OPEN_WITHIN))
set('rev', '0.' .. call_id)
set('status', 'creating')
attend(now() + OPEN_WITHIN)
return answer({'begun'})
