-- sweep: takes runs of a shard that want attention, so that two sweepers take different ones.
-- KEYS 1 the shard's attention index. ARGV 2 base of the shard's keys, 5 how many at most, 6 hold-off (ms),
-- 7 how far ahead to look (ms): runs that want attention only then are taken too
-- answers swept <incarnations>
local taken = call('ZRANGEBYSCORE', shard .. ATTENTION, '-inf', ms(now() + tonumber(ARGV[7])), 'LIMIT', 0, tonumber(ARGV[5]))
for _, incarnation in ipairs(taken) do call('ZADD', shard .. ATTENTION, ms(now() + tonumber(ARGV[6])), incarnation) end
return {'swept', taken, {}, '', ''}
