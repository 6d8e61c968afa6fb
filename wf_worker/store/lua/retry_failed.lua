-- retry_failed: a failed run goes on: what failed is due again with a fresh count of failures, the rest stays as it is.
-- ARGV 5 revision of the header that the caller decided on, or '' for any, 6 a new step budget, or ''
-- answers retried <failed frames> | budget <steps taken>: the new one admits no step more | not_failed <status> | damaged | gone | changed <revision>
-- Run again: the header's revision is still this call's or a later one, so it is refused or answers the same.
if gone() then return answer({'gone'}) end
if get('status') ~= 'failed' then
  if get('retry') == call_id then return answer({'retried', '0'}) end
  return answer({'not_failed', get('status')})
end
if ARGV[5] ~= '' and ARGV[5] ~= get('rev') then return answer({'changed', get('rev')}) end
if get('damaged') == '1' or get('deadlocked') == '1' then return answer({'damaged'}) end
if ARGV[6] ~= '' and tonumber(ARGV[6]) <= tonumber(get('steps')) then return answer({'budget', get('steps')}) end
check_types()
call('HDEL', base .. HEADER, 'failing', 'fail_error', 'error', 'ended')
header = {status = 'failed', seq = get('seq'), created = get('created'), paused = get('paused'), digest = get('digest')}
set('retry', call_id)
if ARGV[6] ~= '' then set('max_steps', ARGV[6]) end
set_status('running')
local failed = call('ZRANGE', base .. FAILED, 0, -1)
for _, key in ipairs(failed) do
  local head = head_of(key)
  head[FAILURES], head[LOSSES], head[BEGAN] = '0', '0', ''
  place(key, head, head[PURPOSE])
end
local open = {}
for _, number in ipairs(call('HKEYS', base .. OPEN)) do
  if string.sub(number, 1, 1) ~= 'b' then open[#open + 1] = tonumber(number) end
end
table.sort(open)
for _, n in ipairs(open) do
  local number = ms(n)
  local o = words(call('HGET', base .. OPEN, number))
  call('ZADD', shard .. INBOX, o[6], run .. '#' .. number)
  tell('interrupt_opened', number, asking_step(o[1]), o[1], '')
end
attend(now())   -- frames that were ready without a message, and whatever has become due meanwhile
settle()
return answer({'retried', ms(#failed)})
