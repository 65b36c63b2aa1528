"""What an index of a catalogue shows, as its publications state it."""

import msgspec
from msgspec import Struct


class IndexState(Struct, frozen=True):
    """What an index shows: the epoch, which every database has its own of, the revision, and its change set's token.

    While an index is built for the first time, `progress` are the rows in it and the rows in the database.
    """

    epoch: str = ""
    revision: int = 0
    token: str = ""
    progress: tuple[int, int] | None = None

    @classmethod
    def decode(cls, about: bytes) -> "IndexState":
        return msgspec.json.decode(about, type=cls) if about else cls()
