"""A paid answer as it is kept until its payer has it, and how the same call is known again."""

from hashlib import blake2b

from tollhouse.gate.operation import Answer
from tollhouse.gate.request import Request
from tollhouse.payments.kept import KeptAnswer


def as_kept(answer: Answer) -> KeptAnswer:
    """What has to be kept to send this answer again."""
    return KeptAnswer(
        answer.status, answer.media_type, answer.body, answer.headers, answer.etag or "", answer.cache_control
    )


def as_answer(kept: KeptAnswer) -> Answer:
    """The kept answer, ready to be sent again."""
    return Answer(kept.body, kept.media_type, kept.etag or None, kept.headers, kept.status, kept.cache_control)


def fingerprint(request: Request, body: bytes) -> bytes:
    """Equal for two calls that ask for the very same thing: method, path, query and body."""
    digest = blake2b(digest_size=16)
    for part in (request.method.encode(), request.path.encode(), request.query, body):
        digest.update(b"%d:%b" % (len(part), part))
    return digest.digest()
