"""A paid answer as it is kept until its payer has it, and how the same call is known again."""

from hashlib import blake2b

from tollhouse.http.endpoint import Response
from tollhouse.http.request import HttpRequest
from tollhouse.payments.stored_response import StoredResponse


def as_kept(answer: Response) -> StoredResponse:
    """What has to be kept to send this answer again."""
    return StoredResponse(
        answer.status, answer.media_type, answer.body, answer.headers, answer.etag or "", answer.cache_control
    )


def as_answer(kept: StoredResponse) -> Response:
    """The kept answer, ready to be sent again."""
    return Response(kept.body, kept.media_type, kept.etag or None, kept.headers, kept.status, kept.cache_control)


def fingerprint(request: HttpRequest, body: bytes) -> bytes:
    """Equal for two calls that ask for the very same thing: method, path, query and body."""
    digest = blake2b(digest_size=16)
    for part in (request.method.encode(), request.path.encode(), request.query, body):
        digest.update(b"%d:%b" % (len(part), part))
    return digest.digest()
