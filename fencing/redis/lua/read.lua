-- Returns issuer, token and holder of the mark, the holder empty if nobody can
-- write under it. KEYS: the mark.

local issuer, token, holder, raised_on = unpack(redis.call('HMGET', KEYS[1], 'issuer', 'token', 'holder', 'server'))
if not (issuer and token and holder and raised_on) then
  return redis.error_reply('NOTARMED there is no mark at ' .. KEYS[1])
end
if raised_on ~= string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)') then
  holder = ''
end
return { issuer, token, holder }
