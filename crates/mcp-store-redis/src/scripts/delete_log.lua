-- KEYS: stream, numbers. Returns the number of deleted logs.
local existed = redis.call('EXISTS', KEYS[2])
redis.call('DEL', KEYS[1], KEYS[2])
return existed
