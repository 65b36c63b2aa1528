"""Answers that are kept while the catalogue stays as it is: the same question again costs a look into a table."""

from collections.abc import Awaitable, Callable, Hashable

from tollhouse.catalogue.catalogue import Catalogue
from tollhouse.http.endpoint import Response

KEPT_ANSWERS = 2_000
KEPT_BYTES = 64 * 1024 * 1024

Make = Callable[[], Awaitable[Response]]


class ResponseCache:
    """The newest answers about one revision of a catalogue; all are let go of together when it changes."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._revision: tuple[str, int] = ("", -1)
        self._answers: dict[Hashable, Response] = {}
        self._bytes = 0

    async def answer(self, question: Hashable, make: Make) -> Response:
        """The answer to this question, made if it is not there. What `make` raises is not kept."""
        revision = self._catalogue.revision
        if revision != self._revision:
            self._clear()
            self._revision = revision
        kept = self._answers.get(question)
        if kept is None:
            kept = await make()
            # Made of an older revision than is shown by now, it would stay for as long as that does.
            if revision == self._catalogue.revision == self._revision:
                self._keep(question, kept)
        return kept

    def _keep(self, question: Hashable, answer: Response) -> None:
        if len(self._answers) >= KEPT_ANSWERS or self._bytes + len(answer.body) > KEPT_BYTES:
            self._clear()
        self._answers[question] = answer
        self._bytes += len(answer.body)

    def _clear(self) -> None:
        self._answers.clear()
        self._bytes = 0
