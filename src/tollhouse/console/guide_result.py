"""What a search of the guide returns."""

from msgspec import Struct


class Excerpt(Struct, frozen=True):
    """A part of a section's text. `is_match`: it is one of the words of the query."""

    text: str
    is_match: bool = False


class GuideResult(Struct, frozen=True):
    """A section that matches, with an excerpt."""

    page: str
    heading: str
    address: str
    excerpt: list[Excerpt]
