"""A cache of responses about one revision of a catalogue."""

from collections.abc import Awaitable, Callable, Hashable

from tollhouse.catalogue.catalogue import Catalogue
from tollhouse.http.endpoint import Response

MAX_RESPONSES = 2_000
MAX_BYTES = 64 * 1024 * 1024


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
