-- What every script shares. The key names are put in front of this text; the script's own text follows it.
--
-- ARGV 1 base of the run's keys, 2 base of the shard's keys, 3 incarnation, 4 call id; a script's own arguments follow.
-- KEYS 1 the run's header (all keys of a call carry the same hash tag).
--
-- Three rules hold in every script:
--   check, then write   a script that fails half-way is not undone, so every read, type check and refusal comes first;
--   run again           any call may be executed again, later: it names what it acts on and then changes nothing;
--   values are opaque   texts of users are never parsed here, and no number above 2^53 is computed with.
--
-- A frame head is 21 words joined by '|':
--   place       ready held paused leased waits open failed blocked
--   purpose     why it is due, or will be: step walk open admit finish elapsed lost, or <limit>_timeout
--   rev         <sequence>.<call id>: the run's sequence number and the call that set it, compared whole
--   token owner of the claim that holds it; the owner '!parked' stands for a worker that gave it back unserved
--   step        number of its present visit, '' before it has one
--   attempt losses failures     counts of the present visit
--   node        position of its step in the workflow document
--   parent      frame key of the frame it is a child of
--   scope       key of its scope
--   chain       enclosing concurrent activations, outermost first, each <key>.<q|c> for its interrupt policy, joined by ','
--   kind        w workflow, c item of a concurrent foreach, s of a serial one, g root of a subgraph
--   act         key of the concurrent activation that the frame controls now
--   since       when it came to its place, ms
--   looks       times it was looked for since
--   limits      what its step may take: ms of an attempt, of all attempts, in the queue, between heartbeats, joined by ','
--   began       when the present visit was claimed first, ms
--   left        ms that it may still be ready without being claimed, from `since`
--   until       which deadline of it is in `due`: attempt total queue heartbeat

local PLACE, PURPOSE, REV, TOKEN, OWNER, STEP, ATTEMPT, LOSSES, FAILURES, NODE, PARENT, SCOPE, CHAIN, KIND, ACT, SINCE, LOOKS, LIMITS, BEGAN, LEFT, UNTIL =
  1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21
-- An activation head: items, next index, the two limits, interrupt policy, controller, chain of its items, step position,
-- scope, purpose and limits of a new item, step number of its opening, revision of its opening.
local A_N, A_NEXT, A_ACTIVE, A_OUT, A_POLICY, A_CTL, A_CHAIN, A_NODE, A_SCOPE, A_PURPOSE, A_LIMITS, A_STEP, A_REV =
  1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13

local LOOK_MS = 5000      -- how soon a ready frame is looked for first
local PAGE = 64           -- frames that one call admits or releases
local SCAN = 512          -- frames that one call looks at for that
local JOURNAL_BYTES = 33554432   -- what a run keeps of its past at most
local SMALL_ITEM = 4096   -- an enclosing item up to this size comes with the claim

local base, shard, run, call_id = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local call = redis.call
local out = {}            -- messages to send: frame key, revision, step position
local clock = nil
local sequence, new_sequence = nil, nil
local heads = {}          -- frame heads read in this call
local acts = {}           -- activation heads read in this call
local header = {}         -- header fields read in this call
local soonest = nil       -- earliest moment a sweeper should look at this run
local committer = ''      -- the worker whose claim this call ends, for the trace

local function now()
  if not clock then
    local t = call('TIME')
    clock = t[1] * 1000 + math.floor(t[2] / 1000)
  end
  return clock
end

local function ms(n) return string.format('%.0f', n) end

local function split(text, pattern)
  local t, n = {}, 0
  for word in string.gmatch(text, pattern) do
    n = n + 1
    t[n] = word
  end
  return t
end

local function words(text) return split(text .. '|', '([^|]*)|') end

local function get(field)
  if header[field] == nil then header[field] = call('HGET', base .. HEADER, field) end
  return header[field]
end

local function set(field, value)
  header[field] = value
  call('HSET', base .. HEADER, field, value)
end

-- The header decides whether there is a run at all: a late call must not bring back keys of a deleted one.
local function gone()
  local status = get('status')
  return not status or status == 'deleting' or status == 'creating'
end

local function ended()
  local status = get('status')
  return status == 'completed' or status == 'failed' or status == 'cancelled'
end

local function failing() return (get('failing') or '') ~= '' end
local function paused() return get('paused') == '1' end

local function head_of(key)
  if heads[key] == nil then
    local text = call('HGET', base .. FRAMES, key)
    heads[key] = text and words(text) or false
  end
  return heads[key]
end

local function save(key, head)
  heads[key] = head
  call('HSET', base .. FRAMES, key, table.concat(head, '|'))
end

local function act_of(key)
  if acts[key] == nil then
    local text = call('HGET', base .. ACTIVATIONS, key)
    acts[key] = text and words(text) or false
  end
  return acts[key]
end

-- A revision is never given out twice, also not after the store has lost its tail: the call id tells two histories apart.
local function revision()
  new_sequence = (new_sequence or tonumber(get('seq'))) + 1
  return ms(new_sequence) .. '.' .. call_id
end

local function attend(at)
  if not soonest or at < soonest then soonest = at end
end

local function split_item(key)
  return string.match(key, '^(.*):(%d+)$')
end

local function under_hold(chain, act)
  if call('HLEN', base .. HOLDS) == 0 then return false end
  if call('HEXISTS', base .. HOLDS, 'run') == 1 then return true end
  if act and call('HEXISTS', base .. HOLDS, act) == 1 then return true end
  for a in string.gmatch(chain, '([^,.]+)%.[qc]') do
    if call('HEXISTS', base .. HOLDS, a) == 1 then return true end
  end
  return false
end
