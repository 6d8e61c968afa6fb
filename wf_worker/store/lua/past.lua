-- past: the fields of the root scope as they were when a root step was first reached. Changes nothing, and what it reads
-- changes no more, however the run goes on.
-- ARGV 5 position of the step, 6 number of fields, or 0 to be told which there were, 7.. their names
-- answers past <mark> <position of the step before> <its outcome> <names, or values: as many as fit into a page>
--       | lost <field>: too much would have had to be kept | gone | unreached
if gone() then return answer({'gone'}) end
local reached = call('HGET', base .. JOURNAL, '@' .. ARGV[5])
if not reached then return answer({'unreached'}) end
local PAGE_BYTES = 262144
local mark, origin, outcome = string.match(reached, '^(%d+)|(%d*)|(.*)$')
-- A field has the value that the first mark from then on kept; where none did, nobody has written it since.
local kept = {}
for _, slot in ipairs(call('HKEYS', base .. JOURNAL)) do
  local at, field = string.match(slot, '^(%d+)|(.*)$')
  if at and tonumber(at) >= tonumber(mark) and (not kept[field] or tonumber(at) < kept[field]) then kept[field] = tonumber(at) end
end
local answers, weight = {}, 0
if ARGV[6] == '0' then
  for _, field in ipairs(call('HKEYS', base .. STATE .. ROOT_SCOPE)) do
    if not kept[field] then answers[#answers + 1] = field end
  end
  for field, at in pairs(kept) do
    local slot = ms(at) .. '|' .. field
    if call('HSTRLEN', base .. JOURNAL, slot) == 1 and call('HGET', base .. JOURNAL, slot) == '!' then return answer({'lost', field}) end
    answers[#answers + 1] = field
  end
else
  for i = 7, 6 + tonumber(ARGV[6]) do
    local field, value = ARGV[i], nil
    if kept[field] then
      value = call('HGET', base .. JOURNAL, ms(kept[field]) .. '|' .. field)
    else
      value = call('HGET', base .. STATE .. ROOT_SCOPE, field)
    end
    if value == '!' then return answer({'lost', field}) end
    if value == '-' then value = false end
    weight = weight + (value and #value or 0)
    if #answers > 0 and weight > PAGE_BYTES then break end
    answers[#answers + 1] = value
  end
end
return answer({'past', mark, origin, outcome, answers})
