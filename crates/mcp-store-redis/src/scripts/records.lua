-- Shared by the scripts that write records. The index has all keys, and the second index has the times of expiry.
local function now()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- The clock of TIME may be ahead of the clock of expiry within a script, so an expired key stays a second longer.
local function sweep(index, expiries)
  local past = string.format('%.0f', now() - 1000)
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', expiries, '-inf', past, 'LIMIT', 0, 16)) do
    redis.call('ZREM', expiries, member)
    redis.call('ZREM', index, member)
  end
end

-- Renews the time to live of a value. `PEXPIRE` and `PERSIST` succeed when the memory is full, and so does each later command of
-- the script.
local function renew(value_key, index, expiries, member, ttl)
  if ttl == '' then
    redis.call('PERSIST', value_key)
    redis.call('ZREM', expiries, member)
  else
    redis.call('PEXPIRE', value_key, ttl)
    redis.call('ZADD', expiries, string.format('%.0f', now() + tonumber(ttl)), member)
  end
  sweep(index, expiries)
end

-- Writes a value. The first write command is SET, which fails when the memory is full, before anything has changed.
local function write(value_key, index, expiries, member, value, ttl)
  if ttl == '' then
    redis.call('SET', value_key, value)
    redis.call('ZREM', expiries, member)
  else
    redis.call('SET', value_key, value, 'PX', ttl)
    redis.call('ZADD', expiries, string.format('%.0f', now() + tonumber(ttl)), member)
  end
  redis.call('ZADD', index, 0, member)
  sweep(index, expiries)
end

local function remove(value_key, index, expiries, member)
  local existed = redis.call('DEL', value_key)
  redis.call('ZREM', index, member)
  redis.call('ZREM', expiries, member)
  sweep(index, expiries)
  return existed
end
