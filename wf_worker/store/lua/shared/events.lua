-- Events: what happens to the run, in one order, for whoever watches it. Kept at every trace level, never with payloads.
--
-- An event's id is <ordinal>.<mark>. The mark is made from the mark before it and the call that tells it, so an id names
-- the whole history up to it: after the store has lost its tail, an id of the lost future is none of this run's.
-- Its text is words joined by '|': mark, ms since the run was created, kind, and the kind's own; only the last one may be a
-- user's word. A step is the most frequent kind, and there may be one for each item of a large loop: so it is short.
--   status           <status>
--   s                <step> <position> <frame> <position of the next step, or ''> <outcome>
--   foreach_opened   <step> <position> <frame> <items>
--   interrupt_opened interrupt_closed   <step> <position> <frame> <'' | answered | expired>
--   attempt_failed   <step> <position> <frame> <attempt> <step | lost | <limit>_timeout>
--   item_failed step_failed   <step> <position> <frame>
--   paused unpaused

local KEPT_EVENTS = 10000   -- the oldest ones beyond are dropped, a page at a time

local told = {}             -- what this call tells, in order
local status_before = nil   -- the run's status before this call changed it

local function tell(...) told[#told + 1] = table.concat({...}, '|') end

local function tell_of(kind, key, head, ...) tell(kind, head[STEP], head[NODE], key, ...) end

-- Another one for every history: a remainder of all marks and call ids so far, read as one long number.
local function mark_after(mark)
  local rest = tonumber(mark, 16)
  for i = 1, #call_id do rest = (rest * 131 + string.byte(call_id, i)) % 4294967291 end
  return string.format('%08x', rest)
end

-- Writes what this call tells, its new status last. Nobody works by events, so a stream that cannot be written keeps no
-- run from going on: every call but fail_run has asked for its type before it wrote.
local function write_events()
  if status_before and status_before ~= get('status') then tell('status', get('status')) end
  if #told == 0 then return end
  local ordinal, mark = string.match(get('events') or '0.0', '^(%d+)%.(%x+)$')
  for _, text in ipairs(told) do
    ordinal = tonumber(ordinal) + 1
    mark = mark_after(mark)
    redis.pcall('XADD', base .. EVENTS, ms(ordinal) .. '-0', 'e', mark .. '|' .. ms(now() - get('created')) .. '|' .. text)
    if ordinal % PAGE == 0 then redis.pcall('XTRIM', base .. EVENTS, 'MAXLEN', KEPT_EVENTS) end
  end
  set('events', ms(ordinal) .. '.' .. mark)
end
