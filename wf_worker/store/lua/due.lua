-- due: what of a run wants a sweeper now, and when to look at it next. Writes the attention index only.
-- ARGV 5 how many of each at most, 6 how far ahead to look for unclaimed frames (ms)
-- answers due <status> <release> <expired: frame, token by turns> <unclaimed: frame, score, head by turns> <now>
--       <frames whose time has come> <overdue: frame, score by turns> <digest> <priority> | gone | reap: nothing of it is to be left
if get('status') == 'deleting' then return answer({'reap'}) end
if get('status') == 'creating' then
  -- A run that is being made is nobody's affair until it is open; one that was left half made is removed.
  if tonumber(get('open_by')) <= now() then return answer({'reap'}) end
  call('ZADD', shard .. ATTENTION, get('open_by'), run)
  return answer({'gone'})
end
if gone() then
  call('ZREM', shard .. ATTENTION, run)
  return answer({'gone'})
end
if ended() then
  local until_then = kept_until()
  if until_then and until_then <= now() then return answer({'reap'}) end
  if until_then then
    call('ZADD', shard .. ATTENTION, ms(until_then), run)
  else
    call('ZREM', shard .. ATTENTION, run)
  end
  return answer({'due', get('status'), '', {}, {}, ms(now()), '0', {}, '', ''})
end
local limit = tonumber(ARGV[5])
local expired, unclaimed, elapsed = {}, {}, 0
for _, key in ipairs(call('ZRANGEBYSCORE', base .. LEASES, '-inf', ms(now()), 'LIMIT', 0, limit)) do
  local head = head_of(key)
  expired[#expired + 1], expired[#expired + 2] = key, head and head[TOKEN] or ''
end
local overdue = call('ZRANGEBYSCORE', base .. DUE, '-inf', ms(now()), 'WITHSCORES', 'LIMIT', 0, limit)
if not failing() then
  elapsed = call('ZCOUNT', base .. WAITS, '-inf', ms(now()))
  local page = call('ZRANGEBYSCORE', base .. READY, '-inf', ms(now() + tonumber(ARGV[6])), 'WITHSCORES', 'LIMIT', 0, limit)
  for i = 1, #page, 2 do
    local head = head_of(page[i])
    if head then
      local n = #unclaimed
      unclaimed[n + 1], unclaimed[n + 2], unclaimed[n + 3] = page[i], page[i + 1], table.concat(head, '|')
    end
  end
end
-- At rest with nothing due the run needs no visits; otherwise it is seen again within ten seconds of what comes next.
local earliest = nil
for _, name in ipairs({LEASES, READY, WAITS, DUE}) do
  local first = call('ZRANGE', base .. name, 0, 0, 'WITHSCORES')
  if first[2] and (not earliest or tonumber(first[2]) < earliest) then earliest = tonumber(first[2]) end
end
if (get('release') or '') ~= '' then earliest = now() end
if earliest then
  call('ZADD', shard .. ATTENTION, ms(math.max(earliest, now() + 1000)), run)
else
  call('ZREM', shard .. ATTENTION, run)
end
return answer({'due', get('status'), get('release') or '', expired, unclaimed, ms(now()), ms(elapsed), overdue, get('digest'), get('priority') or ''})
