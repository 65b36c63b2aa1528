"""The rules of `meter.py` as a script of Redis, over one string for each subject.

The string is day, used, newest, total and width as in Tally (4, 4, 8, 4 and 2 bytes), the bytes of a bucket (1, or 2
once one holds more than 255 calls), then the buckets.
"""

from hashlib import blake2b
from zlib import crc32

GROUPS = 256
"""Groups of subjects. All keys of a group are in one slot of Redis Cluster."""

_UNPACK = """
local function unpacked(raw)
  local day, used, newest, total, width, size = struct.unpack('<I4I4dI4I2B', raw)
  return day, used, newest, total, width, size, string.sub(raw, 24)
end
"""

# KEYS: the tally, the epoch. ARGV: what to do, now, sliding seconds, per day, per sliding (-1 is unlimited), the
# reservation's moment, how many requests of the day it is, the epoch that the caller knows. Answers the day, used, the
# total of the sliding window, when it next has a free place, and the window that refused (0 none, 1 day, 2 sliding);
# only the epoch where that is another one, or false where there is none.
COUNT = (
    _UNPACK
    + """
local epoch = redis.call('GET', KEYS[2])
if not epoch or tonumber(epoch) > tonumber(ARGV[8]) then return {epoch} end
local action, now, span = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local per_day, per_sliding = tonumber(ARGV[4]), tonumber(ARGV[5])
local reserved_at, requests = tonumber(ARGV[6]), tonumber(ARGV[7])
local width, today = span / 60, math.floor(now / 86400)
local day, used, newest, total, size, cells = today, 0, 0, 0, 1, ''
local raw = redis.call('GET', KEYS[1])
if raw then
  local old_width
  day, used, newest, total, old_width, size, cells = unpacked(raw)
  if old_width ~= width then total, size, cells = 0, 1, '' end
  if today > day or day * 86400 > now + 60 then day, used = today, 0 end
end

local function at(place)
  if size == 1 then return string.byte(cells, place) end
  local low, high = string.byte(cells, place * 2 - 1, place * 2)
  return low + high * 256
end
local function set(place, count)
  if size == 1 and count > 255 then
    cells, size = string.gsub(cells, '.', '%0\\0'), 2
  end
  local cell = size == 1 and string.char(count) or string.char(count % 256, math.floor(count / 256))
  cells = string.sub(cells, 1, (place - 1) * size) .. cell .. string.sub(cells, place * size + 1)
end
local function zeros(count) return string.rep('\\0', count * size) end
local function length() return #cells / size end
local function drop(first, last)
  for place = first, last do total = total - at(place) end
  cells = string.sub(cells, 1, (first - 1) * size) .. string.sub(cells, last * size + 1)
end
local function trim()
  if total == 0 then cells, size = '', 1 return end
  local first = string.find(cells, '[^%z]')
  if first > size then cells = string.sub(cells, math.floor((first - 1) / size) * size + 1) end
end

if cells ~= '' then
  local ahead = math.min(math.ceil((newest - now - 60) / width) - 1, length())
  if ahead > 0 then
    drop(length() - ahead + 1, length())
    newest = newest - ahead * width
  end
  local past = math.min(length() - math.ceil((newest - now + span) / width), length())
  if past > 0 then drop(1, past) trim() end
end

local refused = 0
if action == 'reserve' then
  if per_day >= 0 and used + requests > per_day then refused = 1
  elseif per_sliding >= 0 and total >= per_sliding then refused = 2
  else
    used = used + requests
    if cells == '' then newest, cells = now, zeros(1) end
    local later = math.ceil((now - newest) / width)
    if later > 0 then
      cells, newest, later = cells .. zeros(later), newest + later * width, 0
    end
    local missing = math.min(1 - later, 61) - length()
    if missing > 0 then cells = zeros(missing) .. cells end
    local place = math.max(length() + later, 1)
    local count = at(place)
    if count < 65535 then
      set(place, count + 1)
      total = total + 1
    end
  end
elseif action == 'release' then
  if math.floor(reserved_at / 86400) == day then used = math.max(0, used - requests) end
  local place = length() - math.floor((newest - reserved_at) / width)
  if cells ~= '' and place >= 1 and place <= length() and at(place) > 0 then
    set(place, at(place) - 1)
    total = total - 1
    trim()
  end
end
if raw or (refused == 0 and action == 'reserve') then
  local packed = struct.pack('<I4I4dI4I2B', day, used, newest, total, width, size) .. cells
  if packed ~= raw then
    local kept = math.ceil(math.max((day + 1) * 86400, now + span + width) - now) + 120
    redis.call('SET', KEYS[1], packed, 'EX', kept)
  end
end

local frees_at = now
if cells ~= '' then
  local place = 1
  if per_sliding >= 0 and total > per_sliding then
    local over = total - per_sliding - at(1)
    while over >= 0 do
      place = place + 1
      over = over - at(place)
    end
  end
  frees_at = newest - (length() - place) * width + span
end
return {day, used, total, string.format('%.17g', frees_at), refused}
"""
)

# KEYS: tallies of one group, the epoch. ARGV: the new epoch, now, then a day and a count for each tally. The larger
# count of a day stays.
RESTORE = (
    _UNPACK
    + """
local now = tonumber(ARGV[2])
for place = 1, #KEYS - 1 do
  local day, used = tonumber(ARGV[place * 2 + 1]), tonumber(ARGV[place * 2 + 2])
  local raw = redis.call('GET', KEYS[place])
  local rest = struct.pack('<dI4I2B', 0, 0, 1, 1)
  local old_day, old_used = -1, -1
  if raw then
    old_day, old_used = unpacked(raw)
    rest = string.sub(raw, 9)
  end
  local kept = math.ceil((day + 1) * 86400 - now) + 120
  if kept > 0 and (day > old_day or (day == old_day and used > old_used)) then
    redis.call('SET', KEYS[place], struct.pack('<I4I4', day, used) .. rest, 'EX', math.max(kept, 3780))
  end
end
if ARGV[1] ~= '' then redis.call('SET', KEYS[#KEYS], ARGV[1]) end
"""
)

# KEYS: the newest epoch. ARGV: the epoch that the caller knows, and one that it proposes. Answers the epoch to begin:
# several processes that notice a loss at once begin the same.
NEW_EPOCH = """
local newest = redis.call('GET', KEYS[1])
if newest and tonumber(newest) > tonumber(ARGV[1]) then return newest end
redis.call('SET', KEYS[1], ARGV[2])
return ARGV[2]
"""
NEWEST_EPOCH = b"th:newest epoch"


def group_of(subject: str) -> int:
    """The group whose keys are beside this subject's."""
    return crc32(subject.encode()) % GROUPS


def tally_key(subject: str) -> bytes:
    """The key of a subject: short, so that its string and its key together take little memory."""
    return b"th:{%x}" % group_of(subject) + blake2b(subject.encode(), digest_size=12).digest()


def epoch_key(group: int) -> bytes:
    """The key of a group's epoch."""
    return b"th:{%x}epoch" % group
