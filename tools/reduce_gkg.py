"""Reduce a GKG 2.1 file to what the server reads: `python tools/reduce_gkg.py SOURCE.gkg.csv.zip TARGET.gkg.csv.zip`.

All 27 columns stay; those that are never read become empty, and of the last only title, authors and time remain.
"""

import re
import sys
import zipfile
from pathlib import Path

from tollhouse.services.defense.ingest.export_parser import unpack_export

# Date, kind of source, URL, places, persons with positions, organizations with positions, tone, translation, extras.
READ = frozenset({1, 2, 4, 9, 12, 14, 15, 25, 26})
PLACES, TONE, EXTRAS = 9, 15, 26
CAP_BYTES = 256 * 1024 * 1024
# Any fixed date: the same input gives the same file.
WRITTEN = (1980, 1, 1, 0, 0, 0)

_TAGS = re.compile(rb"<(PAGE_TITLE|PAGE_AUTHORS|PAGE_PRECISEPUBTIMESTAMP)>.*?</\1>")


def reduced(line: bytes) -> bytes:
    """A line with the columns that are read."""
    columns = [value if at in READ else b"" for at, value in enumerate(line.split(b"\t"))]
    columns[TONE] = columns[TONE].partition(b",")[0]
    columns[EXTRAS] = b"".join(match[0] for match in _TAGS.finditer(columns[EXTRAS]))
    return b"\t".join(columns)


def main(source: Path, target: Path) -> None:
    """Write the reduced file."""
    lines = unpack_export(source.read_bytes(), CAP_BYTES).rstrip(b"\n").split(b"\n")
    entry = zipfile.ZipInfo(target.name.removesuffix(".zip"), WRITTEN)
    entry.compress_type = zipfile.ZIP_DEFLATED
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr(entry, b"".join(reduced(line) + b"\n" for line in lines), compresslevel=9)
    print(f"{len(lines)} lines, {target.stat().st_size} bytes", file=sys.stderr)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
