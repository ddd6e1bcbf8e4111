-- KEYS: stream, numbers. ARGV: data, ttl in milliseconds or empty. Returns the sequence of the record.
-- The first write command is XADD, which fails when the memory is full, before anything has changed.
local last, bytes = unpack(redis.call('HMGET', KEYS[2], 'last', 'bytes'))
if not last and redis.call('EXISTS', KEYS[1]) == 1 then
  redis.call('DEL', KEYS[1])
end
local sequence = (tonumber(last) or 0) + 1
local text = string.format('%.0f', sequence)
redis.call('XADD', KEYS[1], text .. '-0', 'd', ARGV[1])
redis.call('HSET', KEYS[2], 'last', text, 'bytes', string.format('%.0f', (tonumber(bytes) or 0) + #ARGV[1]))
for _, key in ipairs(KEYS) do
  if ARGV[2] == '' then
    redis.call('PERSIST', key)
  else
    redis.call('PEXPIRE', key, ARGV[2])
  end
end
return sequence
