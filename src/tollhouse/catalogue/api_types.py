"""What the endpoints of every catalogue share: parameters, suggestions, responses in JSON, and a cache of them."""

from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Annotated

from msgspec import Meta, Struct

from tollhouse.catalogue.catalogue import Catalogue
from tollhouse.catalogue.cursors import MAX_CURSOR
from tollhouse.catalogue.query import Suggestion
from tollhouse.errors import invalid_parameter
from tollhouse.http.endpoint import Response

MAX_RESPONSES = 2_000
MAX_BYTES = 64 * 1024 * 1024

Words = Annotated[str, Meta(min_length=1, max_length=500, pattern=r"^[^\x00]*$")]

Cursor = Annotated[str, Meta(min_length=1, max_length=MAX_CURSOR)]
ABOUT_CURSOR = Meta(
    description="`*` for a first page, then `next_cursor` of the page before: reaches every match of an order "
    "that is not by relevance",
    examples=["*"],
)


class SimilarQuery(Struct, frozen=True, forbid_unknown_fields=True):
    limit: Annotated[int, Meta(ge=1, le=50, description="Maximum number of results", examples=[5])] = 10


class AskQuery(Struct, frozen=True, forbid_unknown_fields=True):
    q: Annotated[Words, Meta(description="A question about the items")]


class SuggestQuery(Struct, frozen=True, forbid_unknown_fields=True):
    q: Annotated[Words, Meta(description="The text typed so far")]
    limit: Annotated[int, Meta(ge=1, le=20, description="Maximum number of results", examples=[5])] = 10


class SuggestionsPage(Struct, frozen=True):
    """Completions of the text: values with the number of items that have them, then titles."""

    query: str
    count: int
    suggestions: list[Suggestion]


def check_words(text: str) -> None:
    """Raises Problem `invalid-parameter` for a `q` without a word."""
    if not text.strip():
        raise invalid_parameter("q", "`q` must contain at least one word.")


def known_names(parameter: str, given: Sequence[str], allowed: Sequence[str]) -> list[str]:
    """The names in a repeatable, comma-separated parameter, each once. Raises Problem `invalid-parameter`."""
    names = [name.strip() for text in given for name in text.split(",")]
    for name in names:
        if name not in allowed:
            raise invalid_parameter(parameter, f"`{parameter}` does not allow {name[:60]!r}.", list(allowed))
    return list(dict.fromkeys(names))


class ResponseCache:
    """Responses by request. Emptied when the catalogue's revision changes and when a limit is reached."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._revision: tuple[str, int] = ("", -1)
        self._responses: dict[Hashable, Response] = {}
        self._bytes = 0

    async def get(self, request: Hashable, make: Callable[[], Awaitable[Response]]) -> Response:
        """The cached response to `request`, made by `make` if it is missing. Exceptions are not cached."""
        revision = self._catalogue.revision
        if revision != self._revision:
            self._clear()
            self._revision = revision
        response = self._responses.get(request)
        if response is None:
            response = await make()
            # A response made of an older revision must not be cached under the current one.
            if revision == self._catalogue.revision == self._revision:
                if len(self._responses) >= MAX_RESPONSES or self._bytes + len(response.body) > MAX_BYTES:
                    self._clear()
                self._responses[request] = response
                self._bytes += len(response.body)
        return response

    def _clear(self) -> None:
        self._responses.clear()
        self._bytes = 0
