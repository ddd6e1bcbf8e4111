-- KEYS: value, index, expiries. ARGV: key. Returns the number of deleted records.
return remove(KEYS[1], KEYS[2], KEYS[3], ARGV[1])
