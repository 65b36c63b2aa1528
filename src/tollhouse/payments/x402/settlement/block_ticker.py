"""When the next block is to be expected, so that nobody asks for it long before or after it comes."""

from tollhouse.payments.chain.replies import Block

SHORTEST_SECONDS, LONGEST_SECONDS = 0.2, 15.0
EARLY_SHARE = 0.05
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.025, 0.5
PAUSE_GROWTH = 1.2


class Pulse:
    """The rhythm of a chain, from its blocks as they are seen. Moments are the event loop's."""

    def __init__(self) -> None:
        self.interval_seconds = 0.0
        """Between two blocks; 0 where that is not known, or blocks come with transactions."""
        self.height = -1
        self._newest: Block | None = None
        self._seen_at = 0.0
        self._looks = 0

    def saw(self, block: Block, at: float) -> None:
        """The newest block, at this moment."""
        before = self._newest
        if before is not None and block.number <= before.number:
            self._looks += 1
            return
        if before is not None:
            apart = (block.timestamp - before.timestamp) / (block.number - before.number)
            self.interval_seconds = min(max(apart, SHORTEST_SECONDS), LONGEST_SECONDS)
        self.height, self._newest, self._seen_at, self._looks = block.number, block, at, 0

    def pause_seconds(self, at: float) -> float:
        """How long to wait before looking again: until just before the next block, then in short steps."""
        due = self._seen_at + self.interval_seconds * (1 - EARLY_SHARE)
        if at < due and self._newest is not None and self._looks == 0:
            return due - at
        return min(FIRST_PAUSE_SECONDS * PAUSE_GROWTH**self._looks, LONGEST_PAUSE_SECONDS)
