-- KEYS: value, index, expiries. ARGV: key, 1 with an expected value, the expected value, 1 with a new value, the new
-- value, ttl in milliseconds or empty. Returns {1} after the swap, and {0} or {0, current value} without a change.
local current = redis.call('GET', KEYS[1])
if not current then
  if ARGV[2] == '1' then
    return {0}
  end
elseif ARGV[2] ~= '1' or current ~= ARGV[3] then
  return {0, current}
end
if ARGV[4] == '1' and current == ARGV[5] then
  renew(KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[6])
elseif ARGV[4] == '1' then
  write(KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[5], ARGV[6])
elseif current then
  remove(KEYS[1], KEYS[2], KEYS[3], ARGV[1])
end
return {1}
