-- renew: extends a lease. ARGV 5 frame key, 6 token, 7 lease (ms), 8 1 for a heartbeat of the handler, 9 what it says or ''
-- answers renewed | cancelled | gone | stale
if gone() then return answer({'gone'}) end
if ended() then return answer({get('status') == 'cancelled' and 'cancelled' or 'stale'}) end
local key, head = ARGV[5], head_of(ARGV[5])
if not holds_token(head, ARGV[6]) then return answer({'stale'}) end
if ARGV[8] == '1' then
  call('ZCARD', base .. LEASES)
  call('ZCARD', base .. DUE)
  if ARGV[9] ~= '' then call('HSET', base .. BEATS, key, head[STEP] .. '|' .. ARGV[9]) end
  if head[PURPOSE] == 'step' and head[LIMITS] ~= '' then
    watch_handler(key, head)
    save(key, head)
  end
end
call('ZADD', base .. LEASES, ms(now() + tonumber(ARGV[7])), key)
return answer({'renewed'})
