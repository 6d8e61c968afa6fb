-- Beginnings: what the first moment of a run needs, whether it is started or made from the records of another one.

-- The incarnation and the status of a run that has this id already, where the policy does not let another one have it.
local function in_the_way(run_id, closed_policy)
  local other = call('HGET', shard .. IDS, run_id)
  if not other or other == run then return nil end
  local status = call('HGET', shard .. 'r:' .. other .. ':' .. HEADER, 'status')
  local is_closed = status == 'completed' or status == 'failed' or status == 'cancelled'
  local allowed = not status or status == 'deleting'
    or (is_closed and (closed_policy == 'allow' or (closed_policy == 'allow_after_failure' and status ~= 'completed')))
  if not allowed then return other, status end
end

-- Enters a run that is pending into the shard's indexes.
local function enlist(run_id)
  call('HSET', shard .. IDS, run_id, run)
  call('ZADD', shard .. RUNS, get('created'), run)
  call('ZADD', shard .. RUNS .. ':pending', get('created'), run)
  for _, index in ipairs(own_indexes()) do call('ZADD', shard .. RUNS .. ':' .. index, get('created'), run) end
end

-- From now on by the server's clock, whoever asked for it and whenever the call arrived.
local function start_clock()
  if not get('deadline_ms') then return end
  local at = now() + tonumber(get('deadline_ms'))
  set('deadline', ms(at))
  call('ZADD', base .. DUE, ms(at), 'run')
  attend(at)
end
