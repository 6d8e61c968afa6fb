-- renew: extends a lease. ARGV 5 frame key, 6 token, 7 lease (ms)
-- answers renewed | cancelled | gone | stale
if gone() then return answer({'gone'}) end
if ended() then return answer({get('status') == 'cancelled' and 'cancelled' or 'stale'}) end
if not holds_token(head_of(ARGV[5]), ARGV[6]) then return answer({'stale'}) end
call('ZADD', base .. LEASES, ms(now() + tonumber(ARGV[7])), ARGV[5])
return answer({'renewed'})
