-- KEYS: stream, numbers. ARGV: maximum number of records or empty, maximum bytes or empty.
-- Returns the number of dropped records.
local last, bytes, trimmed = unpack(redis.call('HMGET', KEYS[2], 'last', 'bytes', 'trimmed'))
if not last then
  return 0
end
last, bytes, trimmed = tonumber(last), tonumber(bytes), tonumber(trimmed) or 0
local records, most = tonumber(ARGV[1]) or math.huge, tonumber(ARGV[2]) or math.huge
local first, dropped, position = trimmed, 0, '-'
while last - first > records or bytes > most do
  local entries = redis.call('XRANGE', KEYS[1], position, '+', 'COUNT', 32)
  if #entries == 0 then
    break
  end
  for _, entry in ipairs(entries) do
    if last - first <= records and bytes <= most then
      break
    end
    first, dropped = first + 1, dropped + 1
    bytes = bytes - #entry[2][2]
    position = '(' .. entry[1]
  end
end
if dropped > 0 then
  redis.call('XTRIM', KEYS[1], 'MINID', string.format('%.0f', first + 1) .. '-0')
  redis.call('HSET', KEYS[2], 'trimmed', string.format('%.0f', first), 'bytes', string.format('%.0f', bytes))
end
return dropped
