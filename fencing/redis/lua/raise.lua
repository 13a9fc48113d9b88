-- Moves the mark up to a claim. KEYS: the mark. ARGV: issuer, token, holder.

if not string.find(ARGV[1], '^%S+$') or not string.find(ARGV[2], '^[1-9]%d*$') or not string.find(ARGV[3], '^%S+$') or
  #ARGV[2] > 19 or (#ARGV[2] == 19 and ARGV[2] > '4611686018427387904') then
  return redis.error_reply('INVALID the claim needs an issuer, a decimal token from 1 to 2^62 and a holder')
end
local policy = string.match(redis.call('INFO', 'memory'), 'maxmemory_policy:(%S+)')
if not policy or string.find(policy, '^allkeys') then
  return redis.error_reply('EVICTING maxmemory-policy is ' .. tostring(policy))
end
local issuer, token, holder, raised_on = unpack(redis.call('HMGET', KEYS[1], 'issuer', 'token', 'holder', 'server'))
if not (issuer and token and holder and raised_on) then
  return redis.error_reply('NOTARMED there is no mark at ' .. KEYS[1])
end
local server = string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)')
if raised_on ~= server then
  holder = '' -- see check.lua: a raise above it may have been lost
end
if issuer ~= ARGV[1] then
  return redis.error_reply('FOREIGN token=' .. token .. ' issuer=' .. issuer .. ' holder=' .. holder)
end
local above = #ARGV[2] > #token or (#ARGV[2] == #token and ARGV[2] > token)
if not above and not (token == ARGV[2] and holder == ARGV[3]) then
  return redis.error_reply('FENCED token=' .. token .. ' issuer=' .. issuer .. ' holder=' .. holder)
end
redis.call('PERSIST', KEYS[1])
-- Also where it changes nothing: a raise is repeated because its reply was lost
-- or its WAIT was cut short, and must then give WAIT something to wait for.
redis.call('HSET', KEYS[1], 'token', ARGV[2], 'holder', ARGV[3], 'server', server)
return redis.status_reply('OK')
