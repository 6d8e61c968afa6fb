-- Reading: the slice that a claim or an answer gets.

local function item_of(key, small_only)
  local act, index = split_item(key)
  if small_only and call('HSTRLEN', base .. ITEMS .. act, index) > SMALL_ITEM then return '~' end
  local value = call('HGET', base .. ITEMS .. act, index)
  return value and ('=' .. value) or false
end

-- The frame and its ancestors, innermost first: key, head, body, and for items of a concurrent foreach the activation's
-- revision, opening step and template, the item and what a reader of its lineage sees.
local function ancestry(key)
  local frames, first = {}, true
  while key and key ~= '' do
    local head = head_of(key)
    if not head then break end
    local frame = {key, table.concat(head, '|'), call('HGET', base .. BODIES, key)}
    if head[KIND] == 'c' then
      local act_key = split_item(key)
      local act = act_of(act_key)
      frame[4] = act and act[A_REV] or false
      frame[5] = act and act[A_STEP] or false
      frame[6] = call('HGET', base .. ACTIVATIONS, act_key .. ':t')
      frame[7] = item_of(key, not first)
      frame[8] = call('HGETALL', base .. OVERLAY .. key)
    end
    frames[#frames + 1] = frame
    if #frames > 200 then break end
    key, first = head[PARENT], false
  end
  return frames
end

local function fields_of(scope, names, count)
  if count < 0 then return call('HGETALL', base .. STATE .. scope) end
  if count == 0 then return {} end
  return call('HMGET', base .. STATE .. scope, unpack(names))
end

-- The input of a scope: a child's lies apart, the root's in the header.
local function input_of(scope)
  return call('HGET', base .. SCOPES, scope) or get('input')
end

-- from: position in ARGV of: whether the input is wanted, how many names (-1 for all fields), the names.
local function slice(key, from)
  local head, names = head_of(key), {}
  local count = tonumber(ARGV[from + 1])
  for i = 1, count do names[i] = ARGV[from + 1 + i] end
  return {
    ancestry(key), fields_of(head[SCOPE], names, count), ARGV[from] == '1' and input_of(head[SCOPE]) or false,
    get('run_id'), get('digest'), get('max_steps'), get('steps'), get('trace') or 'full',
  }
end
