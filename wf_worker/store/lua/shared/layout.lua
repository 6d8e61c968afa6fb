-- Layout: what every script looks at first. A run whose records another release wrote otherwise is left alone: to read
-- them as if they were ours would damage it.

if base ~= '' then   -- `sweep` is about no run
  local found = call('HMGET', base .. HEADER, 'layout', 'status')
  if found[1] and found[1] ~= LAYOUT then return {'other_layout', found[1], {}, '', ''} end
  header.status = found[2]
end
