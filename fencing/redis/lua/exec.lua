-- Runs commands after check.lua. ARGV: for each command the number of its words,
-- and the words. Returns the replies. If the first command fails, its error; if
-- a later one does, PARTLY, since Redis does not undo the ones before.
do
  local at = 1
  while at <= #ARGV do
    local words = tonumber(ARGV[at])
    if not words or words < 1 or words > 4000 or at + words > #ARGV then
      return redis.error_reply('ERR malformed list of commands; nothing was done')
    end
    for i = at + 1, at + words do
      if ARGV[i] == leasehold_mark then
        return redis.error_reply('ERR the mark is no data; nothing was done')
      end
    end
    at = at + words + 1
  end
end
local replies, at = {}, 1
while at <= #ARGV do
  local words = tonumber(ARGV[at])
  local reply = redis.pcall(unpack(ARGV, at + 1, at + words))
  if type(reply) == 'table' and reply.err then
    if #replies == 0 then
      return reply
    end
    return redis.error_reply('PARTLY ' .. #replies .. ' commands were done, and the next failed: ' .. reply.err)
  end
  replies[#replies + 1] = reply
  at = at + words + 1
end
return replies
