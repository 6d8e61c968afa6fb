-- unpark: frames that were given back unserved get their messages again, since somebody serves them now, a page a call.
-- ARGV 5 how many capabilities are served, 6.. their names
-- answers unparked <how many> | gone
-- Run again: those that are parked by then.
if gone() or ended() then
  call('SREM', shard .. PARKED_RUNS, run)
  return answer({'gone'})
end
check_types()
local served, moved = {}, 0
for i = 1, tonumber(ARGV[5]) do served[ARGV[5 + i]] = true end
local parked = call('HGETALL', base .. PARKED)
for i = 1, #parked, 2 do
  local key, head = parked[i], head_of(parked[i])
  if served[parked[i + 1]] and head and head[OWNER] == '!parked' and head[PLACE] == 'ready' and moved < PAGE then
    moved = moved + 1
    call('HDEL', base .. PARKED, key)
    head[OWNER] = ''
    save(key, head)
    call('ZADD', base .. READY, ms(now() + LOOK_MS), key)
    attend(now() + LOOK_MS)
    local n = #out
    out[n + 1], out[n + 2], out[n + 3] = key, head[REV], head[NODE]
  end
end
if call('HLEN', base .. PARKED) == 0 then call('SREM', shard .. PARKED_RUNS, run) end
return answer({'unparked', ms(moved)})
