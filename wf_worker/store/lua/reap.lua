-- reap: nothing of an ended run is left when its time is over, nor of one that was left half made, a page a call. ARGV 5 how many keys at most
-- answers reaped | more | gone | refused
-- Run again: goes on where the run stands; a run made anew under the same id is another incarnation.
local status = get('status')
if not status then
  call('ZREM', shard .. ATTENTION, run)
  return answer({'gone'})
end
local most = tonumber(ARGV[5])
if status ~= 'deleting' then
  local until_then = ended() and kept_until()
  if status == 'creating' then until_then = tonumber(get('open_by')) end
  if not until_then or until_then > now() then return answer({'refused'}) end
  -- From here on every other call is told that the run is gone.
  call('ZREM', shard .. RUNS .. ':' .. status, run)
  for _, index in ipairs(own_indexes()) do call('ZREM', shard .. RUNS .. ':' .. index, run) end
  call('ZREM', shard .. RUNS, run)
  set('status', 'deleting')
end
call('ZADD', shard .. ATTENTION, ms(now()), run)
local frames = call('HSCAN', base .. FRAMES, '0', 'COUNT', most)[2]
if #frames > 0 then
  for i = 1, #frames, 2 do
    call('UNLINK', base .. LINEAGE .. frames[i], base .. OVERLAY .. frames[i])
    call('HDEL', base .. FRAMES, frames[i])
  end
  return answer({'more'})
end
local names = call('SPOP', base .. NAMES, most)
if #names > 0 then
  for _, name in ipairs(names) do
    if string.find(name, ':', 1, true) then
      call('UNLINK', base .. name)
    else
      call('UNLINK', base .. ITEMS .. name, base .. RESULTS .. name, base .. WAITING .. name)
    end
  end
  return answer({'more'})
end
local run_id = get('run_id')
if run_id and call('HGET', shard .. IDS, run_id) == run then call('HDEL', shard .. IDS, run_id) end
call('UNLINK', base .. HEADER, base .. FRAMES, base .. BODIES, base .. READY, base .. HELD, base .. PAUSED, base .. LEASES,
  base .. WAITS, base .. FAILED, base .. DUE, base .. BEATS, base .. PARKED, base .. TAKEN, base .. OPEN, base .. CLOSED, base .. HOLDS, base .. ACTIVATIONS,
  base .. SCOPES, base .. JOURNAL, base .. TRACE, base .. EVENTS, base .. NAMES)
call('ZREM', shard .. ATTENTION, run)
call('SREM', shard .. PARKED_RUNS, run)
return {'reaped', {}, '', ''}
