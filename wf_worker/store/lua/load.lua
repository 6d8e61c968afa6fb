-- load: more of what a claimed frame reads. Nothing it reads can change while it is claimed or stands at an open
-- interrupt, so a slice may be loaded in several calls.
-- ARGV 5 frame key, 6 token, or the frame's revision when it stands at an interrupt, 7 number of wants, then each want:
--      state <scope key> <n, or -1 for all> <names...> | input <scope key> | item <frame key> | results <activation> <from> <to> | large <name>
-- answers loaded <values in order; results: <n> <values>> | gone | stale
if gone() then return answer({'gone'}) end
local head = head_of(ARGV[5])
if ended() then return answer({'stale'}) end
if not (holds_token(head, ARGV[6]) or (head and head[PLACE] == 'open' and head[REV] == ARGV[6])) then return answer({'stale'}) end
local PAGE_BYTES = 262144
local values, at = {}, 8
for i = 1, tonumber(ARGV[7]) do
  local kind = ARGV[at]
  if kind == 'state' then
    local names = {}
    local n = tonumber(ARGV[at + 2])
    for j = 1, n do names[j] = ARGV[at + 2 + j] end
    values[i] = fields_of(ARGV[at + 1], names, n)
    at = at + 3 + math.max(0, n)
  elseif kind == 'input' then
    values[i] = input_of(ARGV[at + 1])
    at = at + 2
  elseif kind == 'item' then
    values[i] = item_of(ARGV[at + 1], false)
    at = at + 2
  elseif kind == 'results' then
    -- As many as fit into a page by weight, at least one: a result may be large.
    local key, page, weight = base .. RESULTS .. ARGV[at + 1], {}, 0
    local act = act_of(ARGV[at + 1])
    for j = tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3]) - 1 do
      weight = weight + call('HSTRLEN', key, tostring(j))
      if #page > 0 and weight > PAGE_BYTES then break end
      page[#page + 1] = call('HGET', key, tostring(j))
    end
    values[i] = {act and act[A_N] or false, page}
    at = at + 4
  elseif kind == 'large' then
    values[i] = call('GET', base .. STAGED .. ARGV[at + 1])
    at = at + 2
  end
end
return answer({'loaded', values})
