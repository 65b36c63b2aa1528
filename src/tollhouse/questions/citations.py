"""What a claim rests on, and how an answer points at it: `[1]`, a range of them, in the order of its citations."""

from collections.abc import Iterable

from msgspec import Struct

MOST_PER_CLAIM = 25


class Reference(Struct, frozen=True):
    """Something a caller can look up. `url` is null where nobody published an address."""

    id: str
    title: str
    url: str | None


class Citations:
    """The references of one answer, each numbered once, when it is first pointed at."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self.cited: list[Reference] = []

    def mark(self, references: Iterable[Reference]) -> str:
        """The marker that stands behind a claim; empty where it rests on nothing."""
        numbers = sorted({self._number(reference) for reference in list(references)[:MOST_PER_CLAIM]})
        return "".join(f"[{part}]" for part in _ranges(numbers))

    def _number(self, reference: Reference) -> int:
        if reference.id not in self._numbers:
            self.cited.append(reference)
            self._numbers[reference.id] = len(self.cited)
        return self._numbers[reference.id]


def _ranges(numbers: list[int]) -> list[str]:
    parts: list[tuple[int, int]] = []
    for number in numbers:
        if parts and parts[-1][1] == number - 1:
            parts[-1] = (parts[-1][0], number)
        else:
            parts.append((number, number))
    return [str(first) if first == last else f"{first}-{last}" for first, last in parts]
