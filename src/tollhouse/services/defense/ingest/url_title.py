"""A headline that a person would read, out of a source's URL."""

from collections.abc import Iterable

from tollhouse.services.defense.ingest.truecasing import sentence
from tollhouse.services.defense.ingest.url_slug import headline_words


def title_from_url(url: str, places: Iterable[str] = ()) -> str | None:
    """The headline in the URL's slug, in sentence case; None when the URL holds fewer than three real words.

    `places` are full names of the event's places: the slug has lost their capitals.
    """
    words = headline_words(url)
    return sentence(words, places) if words else None
