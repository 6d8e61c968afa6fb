-- copy_open: opens a run whose records were copied: from now on there is such a run.
-- ARGV 5 run id, 6 a new step budget, or '', 7 number of patched root fields, then field and
--      value by turns, then: fork, or rerun <root frame key> <node> <scope> <purpose> <limits> <body> <origin> <outcome>
-- answers opened <created> | exists <incarnation> <status> | late: it will be removed | gone
-- Run again: it is open, and it answers the same.
local status = get('status')
if not status or status == 'deleting' then return answer({'gone'}) end
if status ~= 'creating' then return answer({'opened', get('created')}) end
if tonumber(get('open_by')) <= now() then return answer({'late'}) end
local run_id = ARGV[5]
local other, used = in_the_way(run_id, 'reject')
if other then return answer({'exists', other, used}) end
check_types()
call('HLEN', base .. JOURNAL)
call('HLEN', base .. STATE .. ROOT_SCOPE)
local patched = tonumber(ARGV[7])
local at = 8 + 2 * patched
local forked = ARGV[at] == 'fork'

call('HDEL', base .. HEADER, 'open_by', 'from_seq')
set('created', ms(now()))
set('updated', ms(now()))
set('status', 'pending')
set('rev', revision())
if ARGV[6] ~= '' then set('max_steps', ARGV[6]) end
enlist(run_id)
tell('status', 'pending')
start_clock()
for i = 8, at - 1, 2 do
  -- The past of a fork stays what it was; a rerun has none.
  if not (forked and keep_before(ARGV[i])) then drop_large(ROOT_SCOPE, ARGV[i]) end
  call('HSET', base .. STATE .. ROOT_SCOPE, ARGV[i], ARGV[i + 1])
end
call('SADD', base .. NAMES, STATE .. ROOT_SCOPE)
if not forked then
  call('HSET', base .. JOURNAL, '@' .. ARGV[at + 2], table.concat({'0', ARGV[at + 7], ARGV[at + 8]}, '|'))
  call('HSET', base .. BODIES, ARGV[at + 1], ARGV[at + 6])
  place(ARGV[at + 1], new_head(ARGV[at + 2], '', ARGV[at + 3], '', 'w', ARGV[at + 5]), ARGV[at + 4])
  return answer({'opened', get('created')})
end
if paused() then tell('paused') end
-- Frames that are ready had their messages in the other run: the first ones get theirs now, a sweeper finds the rest.
for _, key in ipairs(call('ZRANGE', base .. READY, 0, PAGE - 1)) do
  local n, head = #out, head_of(key)
  if head[OWNER] ~= '!parked' then
    call('ZADD', base .. READY, ms(now() + LOOK_MS), key)
    out[n + 1], out[n + 2], out[n + 3] = key, head[REV], head[NODE]
  end
end
-- What failed is tried anew, and so is what somebody was at when its run was ended from outside.
for _, name in ipairs({FAILED, LEASES}) do
  for _, key in ipairs(call('ZRANGE', base .. name, 0, -1)) do
    local head = head_of(key)
    head[FAILURES], head[LOSSES], head[BEGAN] = '0', '0', ''
    place(key, head, head[PURPOSE])
  end
end
for _, number in ipairs(call('HKEYS', base .. OPEN)) do
  if string.sub(number, 1, 1) ~= 'b' then
    local o = words(call('HGET', base .. OPEN, number))
    call('ZADD', shard .. INBOX, o[6], run .. '#' .. number)
    tell('interrupt_opened', number, asking_step(o[1]), o[1], '')
  end
end
if call('HLEN', base .. PARKED) > 0 then call('SADD', shard .. PARKED_RUNS, run) end
attend(now())   -- whatever has become due meanwhile
settle()
return answer({'opened', get('created')})
