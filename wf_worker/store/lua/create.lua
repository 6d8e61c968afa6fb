-- create: a new run, whole or not at all.
-- ARGV 5 latest time (ms) this may still happen, 6 run id, 7 policy for an open id, 8 for a closed id, 9 digest,
--      10 max steps, 11 input, 12 header extras (n, then field and value by turns) ...
--      then: root frame key, node, scope, purpose, limits, body, n, then state field and value by turns
-- answers created | exists <incarnation> <status> | late <now>
local run_id = ARGV[6]
if get('status') then
  if get('run_id') == run_id then return answer({'created', get('created')}) end
  return answer({'exists', run, get('status')})
end
if now() > tonumber(ARGV[5]) then return answer({'late', ms(now())}) end
local other, status = in_the_way(run_id, ARGV[8])
if other then return answer({'exists', other, status}) end
local extras = tonumber(ARGV[12])
local fields = {
  'layout', LAYOUT, 'run_id', run_id, 'status', 'pending', 'rev', '1.' .. call_id, 'seq', '1', 'steps', '0', 'max_steps', ARGV[10],
  'digest', ARGV[9], 'input', ARGV[11], 'created', ms(now()), 'updated', ms(now()), 'traced', '0',
}
for i = 1, extras * 2 do fields[#fields + 1] = ARGV[12 + i] end
call('HSET', base .. HEADER, unpack(fields))
header = {status = 'pending', seq = '1', created = ms(now())}
enlist(run_id)
local at = 13 + extras * 2
local key, scope = ARGV[at], ARGV[at + 2]
for i = 1, tonumber(ARGV[at + 6]) do
  call('HSET', base .. STATE .. scope, ARGV[at + 5 + 2 * i], ARGV[at + 6 + 2 * i])
end
call('SADD', base .. NAMES, STATE .. scope)
call('HSET', base .. BODIES, key, ARGV[at + 5])
call('HSET', base .. JOURNAL, '@' .. ARGV[at + 1], '0||')   -- the first step: the state as it begins is mark 0
start_clock()
tell('status', 'pending')
place(key, new_head(ARGV[at + 1], '', scope, '', 'w', ARGV[at + 4]), ARGV[at + 3])
return answer({'created', ms(now())})
