-- KEYS: stream, numbers. ARGV: ttl in milliseconds or empty. Returns the sequence of the newest record, or 0 without a log.
local last = redis.call('HGET', KEYS[2], 'last')
if not last then
  return 0
end
for _, key in ipairs(KEYS) do
  if ARGV[1] == '' then
    redis.call('PERSIST', key)
  else
    redis.call('PEXPIRE', key, ARGV[1])
  end
end
return tonumber(last)
