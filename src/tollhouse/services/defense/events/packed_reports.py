"""Reports in memory, compressed: a day's reports take a tenth of the memory that their objects take."""

from collections.abc import Sequence

import msgspec
import zstandard
from msgspec import Struct

from tollhouse.services.defense.events.event import TitleBasis
from tollhouse.services.defense.events.report import Report

# Reports of the first batch from which the others are compressed: most of a report is like others.
EXAMPLES = 32
LEVEL = 1


class ReportHeadline(Struct, frozen=True, gc=False):
    """The headline of a report, and what finds the report."""

    id: str
    article_id: str
    url: str
    title: str
    title_basis: TitleBasis


class PackedReports:
    """Compresses reports of one source mode for this process alone; equal reports have equal packed bytes."""

    def __init__(self) -> None:
        self._compressor: zstandard.ZstdCompressor | None = None
        self._decompressor = zstandard.ZstdDecompressor()
        self._decoder = msgspec.json.Decoder(Report)
        self._headlines = msgspec.json.Decoder(ReportHeadline)

    def pack(self, bodies: Sequence[bytes]) -> list[bytes]:
        """Compress reports from their JSON."""
        if self._compressor is None:
            if not bodies:
                return []
            examples = zstandard.ZstdCompressionDict(
                b"".join(bodies[:EXAMPLES]), dict_type=zstandard.DICT_TYPE_RAWCONTENT
            )
            examples.precompute_compress(level=LEVEL)
            self._compressor = zstandard.ZstdCompressor(level=LEVEL, dict_data=examples)
            self._decompressor = zstandard.ZstdDecompressor(dict_data=examples)
        return [self._compressor.compress(body) for body in bodies]

    def read(self, packed: bytes) -> Report:
        return self._decoder.decode(self._decompressor.decompress(packed))

    def read_headline(self, packed: bytes) -> ReportHeadline:
        return self._headlines.decode(self._decompressor.decompress(packed))
