-- KEYS: index, expiries. ARGV: prefix of value keys, lower bound, upper bound, limit, maximum bytes of values.
-- Returns {next key or empty, key, value, key, value, ...}. A member without a value is removed from the indexes.
local limit = tonumber(ARGV[4])
local members = redis.call('ZRANGEBYLEX', KEYS[1], ARGV[2], ARGV[3], 'LIMIT', 0, limit + 1)
local result, bytes, last = {''}, 0, ''
for place, member in ipairs(members) do
  if place > limit or bytes >= tonumber(ARGV[5]) then
    result[1] = last
    break
  end
  local value = redis.call('GET', ARGV[1] .. member)
  if value then
    bytes = bytes + #value
    table.insert(result, member)
    table.insert(result, value)
  else
    redis.call('ZREM', KEYS[1], member)
    redis.call('ZREM', KEYS[2], member)
  end
  last = member
end
return result
