"""The bundled recordings, and which of the stored data the setting `recorded` serves."""

from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Literal

from msgspec import Struct

from tollhouse.config.settings import Recorded, RecordedDay

# Where data belongs: to the provider, to files of this machine and the first recording, or to another recording.
# Windows never mix them.
SourceMode = Literal["provider", "local", "2023-07-02"]


class Recording(Struct, frozen=True):
    """A bundled recording: the day that names it, where its data is stored, the folder of its files, and what it is."""

    day: RecordedDay
    pool: SourceMode
    folder: str
    title: str

    def files(self, ending: str) -> list[Traversable]:
        """Its files with this ending, in the order of their slots."""
        entries = files("tollhouse.services.defense").joinpath("data", self.folder).iterdir()
        return sorted((entry for entry in entries if entry.name.endswith(ending)), key=lambda entry: entry.name)


EXPORTS_OF_2020 = Recording("2020-11-15", "local", "recording", "exports of 13 to 15 November 2020")
PAGES_OF_2023 = Recording("2023-07-02", "2023-07-02", "recording_2023", "pages of one slot of 2 July 2023")
RECORDINGS = (EXPORTS_OF_2020, PAGES_OF_2023)


def chosen_recording(recorded: Recorded) -> Recording:
    """The recording that a setting names; the first, unless it names a day."""
    return next((it for it in RECORDINGS if it.day == recorded), EXPORTS_OF_2020)


def served_pools(recorded: Recorded) -> tuple[SourceMode, ...]:
    """The data to serve, in order of preference: the first that has any is served."""
    pool = chosen_recording(recorded).pool
    return (pool,) if recorded else ("provider", pool)


def recording_in(pool: SourceMode, origin: str) -> RecordedDay | None:
    """The recording that a pool holds, given the origin of its newest file; None for other data."""
    return next((it.day for it in RECORDINGS if it.pool == pool and origin == "recording"), None)
