"""Answers that are passed on while they arrive: what they cost is known only at their end."""

from collections.abc import AsyncIterator, Awaitable, Callable

from tollhouse.errors import Problem
from tollhouse.http.endpoint import ByteStream, Response
from tollhouse.http.request import HttpRequest
from tollhouse.http.response import is_not_modified

Work = Callable[[], Awaitable[object]]


async def _nothing() -> None:
    """Nothing is due."""


class MeteredStream:
    """A stream that pays for itself: `whole` is called before its end is sent, `broken` when it breaks before.

    A client that leaves has had what it asked for: that is an end, too. A `whole` that fails breaks the stream, so that
    no client takes it for whole. `on_piece` is called when a piece has arrived.
    """

    def __init__(
        self,
        answer: Response,
        *,
        whole: Work = _nothing,
        broken: Work = _nothing,
        on_piece: Callable[[], object] = lambda: None,
    ) -> None:
        assert answer.stream is not None, "only streams are metered"
        self._pieces: ByteStream = answer.stream
        self._length = answer.stream_length
        self._whole = whole
        self._broken = broken
        self._on_piece = on_piece
        self._first: bytes | None = None
        self._sent = 0
        self._has_ended = False

    async def begin(self, request: HttpRequest) -> None:
        """Wait for the first piece. Raises what the stream raises, and Problem `invalid-request` if the client left."""
        try:
            self._first = await self.__anext__()
        except StopAsyncIteration:
            self._first = b""
        if request.is_disconnected():
            raise Problem("invalid-request", "The connection closed before the answer.")

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        """The next piece. Raises what the stream and its ends raise."""
        if self._first is not None:
            first, self._first = self._first, None
            return first
        try:
            piece = await self._pieces.__anext__()
        except StopAsyncIteration:
            await self._end(self._whole)
            raise
        except Exception:
            await self._end(self._broken)
            raise
        self._sent += len(piece)
        self._on_piece()
        if self._sent == self._length:
            # These bytes complete the answer: the client needs no more to take it for whole.
            await self._end(self._whole)
        return piece

    async def aclose(self) -> None:
        """The client left, unless the stream has ended."""
        await self._pieces.aclose()
        await self._end(self._whole)

    async def discard(self) -> None:
        """Nothing of it was sent, and nothing will be."""
        self._has_ended = True
        await self._pieces.aclose()

    async def _end(self, work: Work) -> None:
        if not self._has_ended:
            self._has_ended = True
            await work()


def costs_nothing(answer: Response, request: HttpRequest) -> bool:
    """Whether no money is taken for the answer: it is free, the caller has it already, or an upstream refused."""
    is_refusal = answer.passes_through and not 200 <= answer.status < 300
    return answer.is_free or is_refusal or is_not_modified(answer, request)


def may_be_repeated(status: int) -> bool:
    """Whether a signed call that ended so may be sent again as it is: nothing was done for it."""
    return status >= 500 or status in {402, 429}
