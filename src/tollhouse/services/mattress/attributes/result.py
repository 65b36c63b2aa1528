"""What an attribute turned out to be, and where it may be read."""

from msgspec import Struct, field

Place = str
DECLARED, TITLE, TAGS, DESCRIPTION = "declared", "title", "tags", "description"


class Finding(Struct, frozen=True):
    """`words` decided, and stand in `place`. `value` is None where they contradict one another."""

    value: int | str | tuple[str, ...] | None
    words: tuple[str, ...]
    place: Place


class Texts(Struct, frozen=True):
    """What a seller says of a product. `declared` are texts of fields and options by what they speak of: `firmness`."""

    title: str = ""
    tags: tuple[str, ...] = ()
    description: str = ""
    declared: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def places(self, attribute: str) -> list[tuple[Place, tuple[str, ...]]]:
        """Where to look, the most telling place first: the first that says anything decides."""
        return [
            (DECLARED, self.declared.get(attribute, ())),
            (TITLE, (self.title,)),
            (TAGS, self.tags),
            (DESCRIPTION, (self.description,)),
        ]
