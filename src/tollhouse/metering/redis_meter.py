"""A meter in Redis or Redis Cluster, for processes on several machines: the rules of `meter.py` as one atomic script.

The day's counts are copied to the database every second. Beside the tallies of each group of subjects Redis holds the
epoch, which is set once the copies are loaded: where Redis was emptied there is none, so it is noticed before anything
is counted. A process that meets a later epoch first raises the counts to those that it saw last.
"""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from hashlib import blake2b
from typing import Any
from zlib import crc32

from redis.exceptions import RedisError

from tollhouse import clock
from tollhouse.errors import Problem
from tollhouse.logs import logger
from tollhouse.metering.meter import SECONDS_PER_DAY, WINDOW_NAMES, Level, Reservation, Verdict, Windows
from tollhouse.storage.counters import uncountable
from tollhouse.storage.counters_postgres import StoredCounts
from tollhouse.storage.redis_client import RedisClient

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
    return b"th:{%x}epoch" % group


log = logger("metering")

COPY_EVERY_SECONDS = 1.0
RESTORED_AT_ONCE = 500
MOST_TRIES = 4

Counts = Mapping[str, tuple[int, int]]
"""The day (days since 1970) and the requests of that day by subject."""


class RedisMeter:
    def __init__(self, url: str, stored: StoredCounts | None = None) -> None:
        self._redis = RedisClient(url)
        self._count_script = self._redis.script(COUNT)
        self._restore_script = self._redis.script(RESTORE)
        self._epoch_script = self._redis.script(NEW_EPOCH)
        self._stored = stored
        self._uncopied: dict[str, tuple[int, int]] = {}
        self._copied: dict[str, tuple[int, int]] = {}
        self._copying: asyncio.Task[None] | None = None
        self._is_closing = asyncio.Event()
        self._mending: asyncio.Task[None] | None = None
        self._epoch = 0.0
        self._run_ids: frozenset[str] = frozenset()
        # After an error another server may answer at this address, or the same one with the counts of its last dump.
        self._must_check = True

    async def reserve(self, subject: str, windows: Windows, requests: int = 1) -> Reservation:
        now = clock.seconds()
        verdict = await self._run("reserve", subject, windows, repr(now), repr(now), requests)
        return Reservation(subject, windows, now, verdict, requests=requests)

    async def release(self, reservation: Reservation) -> Verdict:
        subject, windows, requests = reservation.subject, reservation.windows, reservation.requests
        return await self._run("release", subject, windows, repr(clock.seconds()), repr(reservation.at), requests)

    async def peek(self, subject: str, windows: Windows) -> Verdict:
        now = repr(clock.seconds())
        return await self._run("peek", subject, windows, now, now, 1)

    async def close(self) -> None:
        """Copy the counts, and give the connections back."""
        self._is_closing.set()
        if self._copying:
            await self._copying
        await self._redis.close()

    async def _run(self, action: str, subject: str, windows: Windows, *values: str | int) -> Verdict:
        """Run the script. `values` are now, the reservation's moment and its requests."""
        now, reserved_at, requests = values
        keys = [tally_key(subject), epoch_key(group_of(subject))]
        limits = [-1 if limit is None else limit for limit in (windows.per_day, windows.per_sliding)]
        arguments = [action, now, windows.sliding_seconds, *limits, reserved_at, requests]
        try:
            if self._must_check:
                await self._once(self._check_servers)
            answer = await self._count(keys, arguments)
        except (RedisError, OSError) as error:
            self._must_check = True
            log.warning("redis unavailable", error=str(error))
            raise uncountable() from error
        if windows.per_day is not None and action != "peek" and not answer[4]:
            self._uncopied[subject] = int(answer[0]), int(answer[1])
            if self._copying is None:
                self._copying = asyncio.create_task(self._copy_until_closing())
        return _verdict(answer, windows)

    async def _count(self, keys: Sequence[bytes], arguments: Sequence[str | int]) -> Sequence[Any]:
        """Run the script in the epoch of its group. Raises Problem, RedisError, OSError."""
        for _ in range(MOST_TRIES):
            known = self._epoch
            answer: Sequence[Any] = await self._redis.run(self._count_script, keys, [*arguments, repr(known)])
            if len(answer) > 1:
                return answer
            await self._once(partial(self._join, known, answer))
        raise uncountable()

    async def _once(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Do this, or wait for what another call does. Raises what that raises."""
        if self._mending is None:
            self._mending = asyncio.create_task(work())
            self._mending.add_done_callback(self._forget_mending)
        await asyncio.shield(self._mending)

    def _forget_mending(self, task: asyncio.Task[None]) -> None:
        self._mending = None
        if not task.cancelled():
            # Seen by those that wait for it, if they still do.
            task.exception()

    async def _check_servers(self) -> None:
        """Restore the counts if a server is another one than before."""
        run_ids = await self._redis.run_ids()
        if self._run_ids and run_ids != self._run_ids:
            await self._restore_all()
        self._run_ids, self._must_check = run_ids, False

    async def _join(self, known: float, answer: Sequence[Any]) -> None:
        """Take over the epoch that another process has begun; begin one where there is none."""
        if self._epoch != known:
            return
        if not answer or answer[0] is None:
            await self._restore_all()
        elif self._epoch:
            epoch = float(answer[0])
            await self._restore({**self._copied, **self._uncopied}, "")
            self._epoch = epoch
        else:
            self._epoch = float(answer[0])

    async def _restore_all(self) -> None:
        """Load the copies of the day's counts, then begin an epoch. Raises Problem, RedisError."""
        yesterday = int(clock.seconds() // SECONDS_PER_DAY) - 1
        stored = await self._stored.since(yesterday) if self._stored else []
        counts = {subject: (day, used) for subject, day, used in stored}
        for subject, count in {**self._copied, **self._uncopied}.items():
            counts[subject] = max(count, counts.get(subject, count))
        known, proposed = repr(self._epoch), repr(max(clock.seconds(), self._epoch + 1e-3))
        epoch = float(await self._redis.run(self._epoch_script, [NEWEST_EPOCH], [known, proposed]))
        await self._restore(counts, repr(epoch))
        self._epoch = epoch
        if counts:
            log.warning("redis had lost its counts; the day's are restored", subjects=len(counts))

    async def _restore(self, counts: Counts, epoch: str) -> None:
        """Raise the counts to these, and set the epoch of every group unless it is empty."""
        groups: dict[int, list[str]] = {group: [] for group in range(GROUPS)} if epoch else {}
        for subject in counts:
            groups.setdefault(group_of(subject), []).append(subject)
        await asyncio.gather(*(self._restore_group(group, names, counts, epoch) for group, names in groups.items()))

    async def _restore_group(self, group: int, names: Sequence[str], counts: Counts, epoch: str) -> None:
        for start in range(0, max(1, len(names)), RESTORED_AT_ONCE):
            part = names[start : start + RESTORED_AT_ONCE]
            is_last = start + RESTORED_AT_ONCE >= len(names)
            arguments: list[str | int] = [epoch if is_last else "", repr(clock.seconds())]
            arguments += [value for name in part for value in counts[name]]
            await self._redis.run(self._restore_script, [*map(tally_key, part), epoch_key(group)], arguments)

    async def _copy_until_closing(self) -> None:
        cleaned_on = 0
        while not self._is_closing.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._is_closing.wait(), COPY_EVERY_SECONDS)
            copied, self._uncopied = self._uncopied, {}
            self._copied = copied
            if not self._stored:
                continue
            yesterday = int(clock.seconds() // SECONDS_PER_DAY) - 1
            try:
                if copied:
                    await self._stored.save(copied)
                if cleaned_on != yesterday:
                    await self._stored.forget_before(yesterday)
                    cleaned_on = yesterday
            except Problem as problem:
                self._uncopied = copied | self._uncopied
                log.warning("usage counts not copied to the database", code=problem.code, subjects=len(copied))


def _verdict(answer: Sequence[Any], windows: Windows) -> Verdict:
    day, used, total, refused = (int(answer[place]) for place in (0, 1, 2, 4))
    frees_at = float(answer[3])
    span = windows.sliding_seconds
    daily = Level("day", SECONDS_PER_DAY, windows.per_day, used, float((day + 1) * SECONDS_PER_DAY))
    sliding = Level(WINDOW_NAMES[span], span, windows.per_sliding, total, frees_at)
    return Verdict(daily, sliding, refused_by=(None, daily, sliding)[refused])
