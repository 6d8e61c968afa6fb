-- sweep: takes runs of a shard that want attention, so that two sweepers take different ones.
-- KEYS 1 the shard's attention index. ARGV 2 base of the shard's keys, 5 how many at most, 6 hold-off (ms),
-- 7 how far ahead to look (ms): runs that want attention only then are taken too
-- answers swept <incarnations>
-- Runs of another layout are left to whoever knows it, and are put off only where so many of them stand in front of ours.
local most, later = tonumber(ARGV[5]), ms(now() + tonumber(ARGV[6]))
local page = call('ZRANGEBYSCORE', shard .. ATTENTION, '-inf', ms(now() + tonumber(ARGV[7])), 'LIMIT', 0, math.max(most, SCAN))
local taken, others = {}, {}
for _, incarnation in ipairs(page) do
  if #taken == most then break end
  local layout = call('HGET', shard .. 'r:' .. incarnation .. ':' .. HEADER, 'layout')
  local list = (not layout or layout == LAYOUT) and taken or others
  list[#list + 1] = incarnation
end
for _, incarnation in ipairs(taken) do call('ZADD', shard .. ATTENTION, later, incarnation) end
if #others == SCAN then
  for _, incarnation in ipairs(others) do call('ZADD', shard .. ATTENTION, later, incarnation) end
end
return {'swept', taken, {}, '', ''}
