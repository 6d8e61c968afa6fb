-- audit_page: a page of what an audit of a run reads. The sequence says whether it is still the run of the page before.
-- ARGV 5 record: header | f | open | holds | a | e | the name of a sorted set, 6 cursor, 7 how much of it
-- answers audit_page <sequence> <next cursor, 0 at the end> <page> | gone
-- Changes nothing.
if gone() then return answer({'gone'}) end
local name, cursor, most = ARGV[5], ARGV[6], ARGV[7]
local page, following = {}, '0'
if name == 'header' then
  for _, field in ipairs({'status', 'failing', 'paused', 'release', 'seq', 'steps', 'max_steps', 'rev', 'events'}) do
    if get(field) then page[#page + 1], page[#page + 2] = field, get(field) end
  end
  page = {page, ms(call('HLEN', base .. FRAMES)), ms(call('HLEN', base .. OPEN))}
elseif name == 'e' then
  page = {ms(call('XLEN', base .. EVENTS)), call('XRANGE', base .. EVENTS, '-', '+', 'COUNT', 1), call('XREVRANGE', base .. EVENTS, '+', '-', 'COUNT', 1)}
elseif name == 'f' or name == 'open' or name == 'holds' or name == 'a' then
  local found = call('HSCAN', base .. ({f = FRAMES, open = OPEN, holds = HOLDS, a = ACTIVATIONS})[name], cursor, 'COUNT', most)
  following = found[1]
  for i = 1, #found[2], 2 do
    local key, value = found[2][i], found[2][i + 1]
    local opaque = (name == 'open' and string.sub(key, 1, 1) == 'b') or (name == 'a' and string.sub(key, -2) == ':t')
    page[#page + 1], page[#page + 2] = key, opaque and '' or value
    if name == 'a' then
      page[#page + 1] = opaque and '' or ms(call('HLEN', base .. RESULTS .. key))
      page[#page + 1] = opaque and '' or ms(call('SCARD', base .. WAITING .. key))
    end
  end
else
  local found = call('ZSCAN', base .. name, cursor, 'COUNT', most)
  following = found[1]
  for i = 1, #found[2], 2 do page[#page + 1] = found[2][i] end
end
return answer({'audit_page', get('seq'), following, page})
