-- fire: frames whose time has come are due, a page a call. Run again: those whose time has come by then.
-- answers fired <how many> | gone | refused | damaged <record>
if gone() then return answer({'gone'}) end
if ended() or failing() then return answer({'refused'}) end
check_types()
local page = call('ZRANGEBYSCORE', base .. WAITS, '-inf', ms(now()), 'LIMIT', 0, PAGE)
for _, key in ipairs(page) do
  if not head_of(key) then return answer({'damaged', FRAMES .. ' ' .. key}) end
end
for _, key in ipairs(page) do place(key, head_of(key), head_of(key)[PURPOSE]) end
if #page == PAGE then attend(now()) end
settle()
return answer({'fired', ms(#page)})
