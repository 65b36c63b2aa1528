"""What an article is: one page somebody published, whichever feed told us of it."""

from datetime import datetime
from typing import Literal

from msgspec import Struct

ArticleSource = Literal["feed", "gkg", "gdelt"]


class Article(Struct, frozen=True, gc=False):
    """One published page. `publisher` is the site's name as a reader knows it; `family` is who speaks through it.

    `published` is UTC: what the page says, or when the provider first saw it where the page says nothing
    believable. `text` is the summary or body where a feed carries one, else empty. `tone` is GDELT's -100..100.
    `language` is ISO 639-1, empty when nobody says.
    """

    id: str
    url: str
    title: str
    publisher: str
    family: str
    published: datetime
    source: ArticleSource
    text: str = ""
    tone: float | None = None
    language: str = ""
