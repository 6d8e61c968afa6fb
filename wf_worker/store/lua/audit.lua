-- audit: what an audit of a small run needs, read in one call. Changes nothing.
-- answers audit <header> <heads> <ready> <held> <paused> <leases> <waits> <failed> <open> <holds> <activations> <counts> <due>
--       <events> <journal: slot, value where it is short, length of the large value that it names, by turns> | gone
if gone() then return answer({'gone'}) end
local counts = {}
for _, key in ipairs(call('HKEYS', base .. ACTIVATIONS)) do
  if string.sub(key, -2) ~= ':t' then
    local n = #counts
    counts[n + 1], counts[n + 2], counts[n + 3] = key, ms(call('HLEN', base .. RESULTS .. key)), ms(call('SCARD', base .. WAITING .. key))
  end
end
local sets = {}
for i, name in ipairs({READY, HELD, PAUSED, LEASES, WAITS, FAILED}) do sets[i] = call('ZRANGE', base .. name, 0, -1) end
local journal = {}
for _, slot in ipairs(call('HKEYS', base .. JOURNAL)) do
  local n, value = #journal, call('HSTRLEN', base .. JOURNAL, slot) <= 128 and call('HGET', base .. JOURNAL, slot) or ''
  local large = string.match(value, '^@(%S+) %d+$')
  journal[n + 1], journal[n + 2], journal[n + 3] = slot, value, large and ms(call('STRLEN', base .. STAGED .. large)) or ''
end
return answer({
  'audit', call('HGETALL', base .. HEADER), call('HGETALL', base .. FRAMES), sets[1], sets[2], sets[3], sets[4], sets[5], sets[6],
  call('HGETALL', base .. OPEN), call('HGETALL', base .. HOLDS), call('HGETALL', base .. ACTIVATIONS), counts,
  call('ZRANGE', base .. DUE, 0, -1),
  {ms(call('XLEN', base .. EVENTS)), call('XRANGE', base .. EVENTS, '-', '+', 'COUNT', 1), call('XREVRANGE', base .. EVENTS, '+', '-', 'COUNT', 1)},
  journal,
})
