-- KEYS: stream, numbers. ARGV: data, ttl in milliseconds or empty, writer or empty, number of the record of the writer.
-- Returns the sequence of the record, and 0 if the writer has a record with a greater number.
-- The first write command is XADD, which fails when the memory is full, before anything has changed.
local last, bytes, writer = unpack(redis.call('HMGET', KEYS[2], 'last', 'bytes', 'w:' .. ARGV[3]))
local sequence
if writer then
  local number, of = string.match(writer, '^(%d+):(%d+)$')
  if tonumber(number) > tonumber(ARGV[4]) then
    return 0
  end
  if tonumber(number) == tonumber(ARGV[4]) then
    sequence = tonumber(of)
    -- `WAIT` only waits for the replicas of writes of this connection, and the first append can belong to a lost one.
    redis.call('HSET', KEYS[2], 'w:' .. ARGV[3], writer)
  end
end
if not sequence then
  if not last and redis.call('EXISTS', KEYS[1]) == 1 then
    redis.call('DEL', KEYS[1])
  end
  sequence = (tonumber(last) or 0) + 1
  local text = string.format('%.0f', sequence)
  redis.call('XADD', KEYS[1], text .. '-0', 'd', ARGV[1])
  redis.call('HSET', KEYS[2], 'last', text, 'bytes', string.format('%.0f', (tonumber(bytes) or 0) + #ARGV[1]))
  if ARGV[3] ~= '' then
    redis.call('HSET', KEYS[2], 'w:' .. ARGV[3], ARGV[4] .. ':' .. text)
  end
  -- Beside the writers, the hash has at most three fields.
  if ARGV[3] ~= '' and not writer and redis.call('HLEN', KEYS[2]) > tonumber(ARGV[5]) then
    local fields, count, oldest, lowest = redis.call('HGETALL', KEYS[2]), 0, nil, math.huge
    for at = 1, #fields, 2 do
      local of = tonumber(string.match(fields[at + 1], ':(%d+)$'))
      if of and string.sub(fields[at], 1, 2) == 'w:' then
        count = count + 1
        if of < lowest then
          oldest, lowest = fields[at], of
        end
      end
    end
    if count > tonumber(ARGV[5]) then
      redis.call('HDEL', KEYS[2], oldest)
    end
  end
end
for _, key in ipairs(KEYS) do
  if ARGV[2] == '' then
    redis.call('PERSIST', key)
  else
    redis.call('PEXPIRE', key, ARGV[2])
  end
end
return sequence
