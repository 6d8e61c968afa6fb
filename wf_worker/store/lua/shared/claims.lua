-- Claims: a ready frame is given to a token.

-- Gives a ready frame to a token. A handler visit takes its step number with its first claim and keeps it over attempts.
local function grant(key, head, token, owner, lease_ms)
  local denied = '0'
  -- An attempt that would begin after the time of all attempts is none.
  if head[PURPOSE] == 'step' and head[BEGAN] ~= '' and head[LIMITS] ~= '' then
    local total = limits_of(head)[L_TOTAL]
    if total ~= '' and tonumber(head[BEGAN]) + tonumber(total) <= now() then head[PURPOSE] = 'total_timeout' end
  end
  if head[PURPOSE] == 'step' then
    if head[STEP] == '' then
      local steps = tonumber(get('steps'))
      if steps >= tonumber(get('max_steps')) then
        denied = '1'
      else
        set('steps', ms(steps + 1))
        head[STEP] = ms(steps + 1)
      end
    end
    if denied == '0' then head[ATTEMPT] = tostring(tonumber(head[ATTEMPT]) + 1) end
    if head[BEGAN] == '' then head[BEGAN] = ms(now()) end
    head[LEFT] = queue_time(head, 'step')   -- should it come back unserved
  end
  leave(key, head)
  head[PLACE], head[TOKEN], head[OWNER], head[REV], head[SINCE] = 'leased', token, owner, revision(), ms(now())
  call('ZADD', base .. LEASES, ms(now() + lease_ms), key)
  attend(now() + lease_ms)
  if head[PURPOSE] == 'step' and denied == '0' then watch_handler(key, head) end
  save(key, head)
  return denied
end

-- What a claimer is told: the words of its claim and the slice. from: position of what the slice reads.
local function granted(word, key, head, denied, from)
  local deadline = head[PURPOSE] == 'step' and denied == '0' and handler_deadline(head)
  -- Before a first attempt nobody can have said anything.
  local first = head[PURPOSE] == 'step' and tonumber(head[ATTEMPT]) <= 1
  local beat = not first and call('HGET', base .. BEATS, key)
  local step, said = string.match(beat or '', '^(%d*)|(.*)$')
  return answer({
    word, head[PURPOSE], head[STEP], head[ATTEMPT], head[LOSSES], head[FAILURES], denied, head[REV],
    deadline and ms(deadline) or '', step == head[STEP] and said or '', slice(key, from),
  })
end

local function holds_token(head, token)
  return head and head[PLACE] == 'leased' and head[TOKEN] ~= '' and head[TOKEN] == token
end

-- A handler's claim is taken from its worker. Should its result come late, the trace says so once: `discard` finds here
-- that the token was given out, and why it counts no more. The first write of its script, since it may fail.
local function take_claim(head, why)
  if head[PLACE] == 'leased' and head[PURPOSE] == 'step' and head[STEP] ~= '' and get('trace') ~= 'off' then
    call('HSETNX', base .. TAKEN, head[TOKEN], head[STEP] .. '|' .. why)
  end
end
