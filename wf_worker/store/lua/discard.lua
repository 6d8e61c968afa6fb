-- discard: a result that came after its claim was taken away, or after the run had ended, is told once in the trace.
-- ARGV 5 frame key, 6 token, 7 owner, 8 entry
-- answers traced <why> | gone | refused: the claim is good, was never given, or its late result is told already
-- Run again: the token is marked as told.
if gone() then return answer({'gone'}) end
local head, token = head_of(ARGV[5]), ARGV[6]
local step, why
local taken = call('HGET', base .. TAKEN, token)
if taken then
  step, why = string.match(taken, '^(%d+)|(.+)$')
elseif ended() and holds_token(head, token) and head[PURPOSE] == 'step' and head[STEP] ~= '' then
  step, why = head[STEP], get('status')
end
if not why or get('trace') == 'off' then return answer({'refused'}) end
call('XLEN', base .. TRACE)
call('HSET', base .. TAKEN, token, '')
local ordinal = (tonumber(get('traced')) or 0) + 1
set('traced', ms(ordinal))
call('XADD', base .. TRACE, ms(ordinal) .. '-0', 'n', step, 'w', ARGV[7], 'e', ARGV[8], 'd', why)
return answer({'traced', why})
