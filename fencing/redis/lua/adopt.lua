-- Hands the resource to another issuer. KEYS: the mark. ARGV: the issuer that
-- has it, the one that gets it. The token of the first is kept for its return.

if not string.find(ARGV[1], '^%S+$') or not string.find(ARGV[2], '^%S+$') then
  return redis.error_reply('INVALID the issuers must be text without spaces')
end
local policy = string.match(redis.call('INFO', 'memory'), 'maxmemory_policy:(%S+)')
if not policy or string.find(policy, '^allkeys') then
  return redis.error_reply('EVICTING maxmemory-policy is ' .. tostring(policy))
end
local issuer, token, holder = unpack(redis.call('HMGET', KEYS[1], 'issuer', 'token', 'holder'))
if not (issuer and token and holder) then
  return redis.error_reply('NOTARMED there is no mark at ' .. KEYS[1])
end
redis.call('PERSIST', KEYS[1])
if issuer == ARGV[2] then
  redis.call('HSET', KEYS[1], 'issuer', issuer) -- changes nothing, and gives WAIT something to wait for
  return redis.status_reply('OK')
end
if issuer ~= ARGV[1] then
  return redis.error_reply('FOREIGN token=' .. token .. ' issuer=' .. issuer .. ' holder=' .. holder)
end
local server = string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)')
local former = redis.call('HGET', KEYS[1], 'former:' .. ARGV[2]) or '0'
redis.call('HSET', KEYS[1], 'former:' .. issuer, token, 'issuer', ARGV[2], 'token', former, 'holder', '', 'server', server)
return redis.status_reply('OK')
