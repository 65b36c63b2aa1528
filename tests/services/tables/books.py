"""Tables that tests are made of: any number of books, made up from syllables, and how a table becomes a service."""

import csv
import io
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tollhouse.cli.new import new
from tollhouse.cli.options import CommonOptions

HEADER = ("ISBN", "Book title", "Author", "Subjects", "Price (€)", "Pages", "Published", "In print?", "Shelf", "Note")
SUBJECTS = ("poetry", "travel", "history", "cooking", "botany", "chess")
SHELVES = ("A north", "A south", "B north", "B south", "cellar")


def book(number: int) -> list[str]:
    """The same book for the same number."""
    chance = random.Random(number)
    word = lambda: "".join(chance.choices(("ka", "lo", "mi", "ren", "tu", "vas", "dor", "eli"), k=3))  # noqa: E731
    return [
        f"978-{number:07d}",
        f"{word()} {word()} of {word()}".capitalize(),
        f"{word().capitalize()} {word().capitalize()}",
        "|".join(sorted(chance.sample(SUBJECTS, chance.randint(1, 3)))),
        f"€ {chance.randint(300, 9_900) / 100:.2f}",
        str(chance.randint(40, 1_200)),
        f"{chance.randint(1, 28):02d}.{chance.randint(1, 12):02d}.{chance.randint(1950, 2024)}",
        chance.choice(("yes", "no")),
        chance.choice(SHELVES),
        chance.choice(
            ("", f"Signed by {word()}; kept behind glass since it came from the house of {word()}, long ago.")
        ),
    ]


def as_csv(rows: list[list[str]], header: tuple[str, ...] = HEADER, **how: Any) -> str:
    out = io.StringIO()
    csv.writer(out, **how).writerows([header, *rows])
    return out.getvalue()


def books(count: int) -> str:
    return as_csv([book(number) for number in range(1, count + 1)])


def declare(home: Path, text: str | bytes, name: str = "books", ending: str = "csv", **options: Any) -> Path:
    """Write the table and make it a service with `tollhouse new`; the declaration's file. Runs in `home`."""
    table = home / f"{name}.{ending}"
    table.write_bytes(text.encode() if isinstance(text, str) else text)
    # The command has an event loop of its own, and tests call this from theirs.
    with ThreadPoolExecutor(1) as executor:
        executor.submit(
            new, name, table=str(table), common=CommonOptions(data_dir=str(home / "data")), force=True, **options
        ).result()
    return home / "services" / f"{name}.toml"
