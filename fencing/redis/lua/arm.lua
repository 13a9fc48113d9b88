-- Gives a resource a mark, if it has none. KEYS: the mark. ARGV: issuer.

if not string.find(ARGV[1], '^%S+$') then
  return redis.error_reply('INVALID the issuer must be text without spaces')
end
local policy = string.match(redis.call('INFO', 'memory'), 'maxmemory_policy:(%S+)')
if not policy or string.find(policy, '^allkeys') then
  return redis.error_reply('EVICTING maxmemory-policy is ' .. tostring(policy))
end
local server = string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)')
local issuer, token, holder = unpack(redis.call('HMGET', KEYS[1], 'issuer', 'token', 'holder'))
if issuer then
  if issuer ~= ARGV[1] then
    return redis.error_reply('FOREIGN token=' .. token .. ' issuer=' .. issuer .. ' holder=' .. holder)
  end
  redis.call('PERSIST', KEYS[1])
  redis.call('HSET', KEYS[1], 'issuer', issuer) -- changes nothing, and gives WAIT something to wait for
  return redis.status_reply('OK')
end
redis.call('HSET', KEYS[1], 'issuer', ARGV[1], 'token', '0', 'holder', '', 'server', server)
return redis.status_reply('OK')
