"""What no request may exceed, over a bare ASGI conversation: the slow and the lying need no socket."""

import asyncio
import json
import time

import pytest


class Conversation:
    """One request told message by message, and what came back."""

    def __init__(self, gate, *, path="/things", method="POST", query=b"", headers=()) -> None:
        self.gate = gate
        self.scope = {
            "type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": query,
            "headers": [(b"host", b"test"), (b"content-type", b"application/json"), *headers],
            "client": ("198.51.100.1", 5),
        }  # fmt: skip
        self.sent = []

    async def tell(self, messages):
        """Answer status and problem after these messages; each is a body part, a pause in seconds, or a hang-up."""
        told = iter(messages)

        async def receive() -> dict[str, object]:
            for message in told:
                if isinstance(message, float):
                    await asyncio.sleep(message)
                elif message is None:
                    return {"type": "http.disconnect"}
                else:
                    return {"type": "http.request", "body": message, "more_body": message != b""}
            await asyncio.Event().wait()
            raise AssertionError

        async def send(message) -> None:
            self.sent.append(message)

        await self.gate.handle(self.scope, receive, send)
        body = b"".join(message.get("body", b"") for message in self.sent)
        return self.sent[0]["status"], json.loads(body)


async def test_body_in_parts_is_put_together(gate):
    status, answer = await Conversation(gate).tell([b'{"na', b'me":', b'"a"}', b""])
    assert (status, answer["body"]["name"]) == (200, "a")


async def test_dripped_body_ends_at_the_total_deadline(gate):
    begun = time.monotonic()
    status, problem = await Conversation(gate).tell([b" ", 0.05] * 100)
    assert (status, problem["code"]) == (408, "request-timeout")
    assert time.monotonic() - begun < 4


async def test_body_that_never_comes_ends_at_the_deadline(gate):
    status, problem = await Conversation(gate).tell([])
    assert (status, problem["code"]) == (408, "request-timeout")


async def test_declared_length_is_believed_when_it_is_too_large(gate):
    headers = [(b"content-length", b"10001")]
    status, problem = await Conversation(gate, headers=headers).tell([])
    assert (status, problem["code"], problem["limit_bytes"]) == (413, "payload-too-large", 10_000)


async def test_body_longer_than_declared_is_cut(gate):
    conversation = Conversation(gate, headers=[(b"content-length", b"5")])
    status, problem = await conversation.tell([b" " * 4_000] * 10)
    assert (status, problem["code"]) == (413, "payload-too-large")


@pytest.mark.parametrize("spare", [0, 1])
async def test_limit_itself_is_allowed(gate, spare):
    body = b'{"name":"a"}'.ljust(10_000 + spare)
    status, _ = await Conversation(gate).tell([body, b""])
    assert status == (413 if spare else 200)


@pytest.mark.parametrize("length", [b"-5", b"abc", b"9" * 30, b"1e3", b"", "\u0665".encode()])
async def test_nonsense_length_is_left_to_what_arrives(gate, length):
    status, _ = await Conversation(gate, headers=[(b"content-length", length)]).tell([b'{"name":"a"}', b""])
    assert status in {200, 413}


async def test_hang_up_is_no_failure_of_ours(gate):
    status, problem = await Conversation(gate).tell([b'{"na', None])
    assert (status, problem["code"]) == (400, "invalid-request")


async def test_refusals_of_a_body_close_the_connection(gate):
    for messages in ([], [b" " * 20_000]):
        conversation = Conversation(gate)
        await conversation.tell(messages)
        assert (b"connection", b"close") in conversation.sent[0]["headers"]


async def test_long_address_is_refused(gate):
    status, problem = await Conversation(gate, method="GET", query=b"q=" + b"x" * 8_200).tell([b""])
    assert (status, problem["code"]) == (414, "uri-too-long")


@pytest.mark.parametrize("headers", [[(b"x-long", b"x" * 17_000)], [(b"x-%d" % n, b"x" * 20) for n in range(800)]])
async def test_large_headers_are_refused(gate, headers):
    status, problem = await Conversation(gate, method="GET", headers=headers).tell([b""])
    assert (status, problem["code"]) == (431, "headers-too-large")


async def test_body_of_a_get_is_not_waited_for(gate):
    status, _ = await Conversation(gate, method="GET").tell([])
    assert status == 200


async def test_many_slow_bodies_wait_at_the_same_time(gate):
    begun = time.monotonic()
    answers = await asyncio.gather(*(Conversation(gate).tell([b" "]) for _ in range(200)))
    assert {status for status, _ in answers} == {408}
    assert time.monotonic() - begun < 15


async def test_short_body_that_nobody_reads_is_taken_in_before_the_answer(gate):
    parts = iter([b"12", b"345", b""])
    status, _ = await Conversation(gate, method="GET", headers=[(b"content-length", b"5")]).tell(parts)
    assert (status, next(parts, None)) == (200, None)


@pytest.mark.parametrize("headers", [[(b"content-length", b"2000000")],
                                     [(b"content-length", b"5"), (b"expect", b"100-continue")]])  # fmt: skip
async def test_long_body_and_one_not_yet_sent_are_not_waited_for(gate, headers):
    parts = iter([b"12"])
    status, _ = await Conversation(gate, method="GET", headers=headers).tell(parts)
    assert (status, next(parts, None)) == (200, b"12")


async def test_unread_body_that_never_comes_delays_the_answer_by_a_second_at_most(gate):
    begun = time.monotonic()
    status, _ = await Conversation(gate, method="GET", headers=[(b"content-length", b"5")]).tell([])
    assert status == 200
    assert time.monotonic() - begun < 5
