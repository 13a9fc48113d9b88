-- What a guarded write begins with: put it in front of a script of your own, or
-- of exec.lua. Where the mark is not the claim, the script ends here with an
-- error. After it KEYS and ARGV are those of the write alone.
--
-- KEYS: the mark, then every key that the write touches, in the same hash slot.
-- ARGV: issuer, token and holder of the claim, then the arguments of the write.
--
-- Tokens are compared as text: numbers of Lua are doubles, to which 2^53 and
-- 2^53 + 1 are one. The mark knows the server that it was raised on by its
-- replication id, which changes when a replica is promoted and when a server
-- starts: what may have been lost there is not relied on, and the holder of the
-- mark counts as nobody.

local leasehold_mark = KEYS[1]
do
  local issuer, token, holder, server = unpack(redis.call('HMGET', leasehold_mark, 'issuer', 'token', 'holder', 'server'))
  if not (issuer and token and holder and server) then
    return redis.error_reply('NOTARMED there is no mark at ' .. leasehold_mark)
  end
  if server ~= string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)') then
    holder = ''
  end
  local code
  if issuer ~= ARGV[1] then
    code = 'FOREIGN'
  elseif #ARGV[2] > #token or (#ARGV[2] == #token and ARGV[2] > token) then
    code = 'NOTRAISED'
  elseif token ~= ARGV[2] or holder ~= ARGV[3] or holder == '' then
    code = 'FENCED'
  end
  if code then
    return redis.error_reply(code .. ' token=' .. token .. ' issuer=' .. issuer .. ' holder=' .. holder)
  end
  table.remove(KEYS, 1)
  for _ = 1, 3 do
    table.remove(ARGV, 1)
  end
end
