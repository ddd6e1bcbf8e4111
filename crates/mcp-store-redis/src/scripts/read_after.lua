-- KEYS: stream, numbers. ARGV: sequence, limit, maximum bytes of data.
-- Returns {missed records, 1 if more follow, sequence, data, sequence, data, ...}.
local trimmed = redis.call('HGET', KEYS[2], 'trimmed')
local after, limit, most = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local result = {math.max((tonumber(trimmed) or 0) - after, 0), 0}
local position, count, bytes = ARGV[1] .. '-0', 0, 0
while true do
  local step = math.min(limit + 1 - count, 32)
  local entries = redis.call('XRANGE', KEYS[1], '(' .. position, '+', 'COUNT', step)
  for _, entry in ipairs(entries) do
    if count == limit or bytes >= most then
      result[2] = 1
      return result
    end
    position = entry[1]
    table.insert(result, tonumber(string.match(position, '^%d+')))
    table.insert(result, entry[2][2])
    count = count + 1
    bytes = bytes + #entry[2][2]
  end
  if #entries < step then
    return result
  end
end
