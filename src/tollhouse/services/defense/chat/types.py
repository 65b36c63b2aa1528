"""What the chat takes and gives: its body, its answer, and the events of a streamed answer."""

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from tollhouse.questions.citations import Reference
from tollhouse.questions.conversation import LONGEST_ID
from tollhouse.services.defense.chat.query_types import Query

LONGEST_PROMPT = 8_000
REMEMBERED_TURNS = 3
REMEMBERED_CHARACTERS = 500


class ChatRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of `POST /chat`."""

    prompt: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=LONGEST_PROMPT,
            description="A question in English about the last 24 hours",
            examples=["How many battles were there in Ethiopia?"],
        ),
    ]
    model: Annotated[
        Annotated[str, Meta(max_length=200)] | None, Meta(description="One of the two models named in the settings")
    ] = None
    conversation_id: Annotated[
        Annotated[str, Meta(max_length=LONGEST_ID)] | None,
        Meta(description="The id of the answer before, to go on from it for an hour. Each answer has a new one"),
    ] = None
    stream: Annotated[bool, Meta(description="Answer as server-sent events: delta, retract, done or error")] = False


class Usage(Struct, frozen=True):
    """Tokens of the language model; 0 where none was asked."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class ChatReply(Struct, frozen=True):
    """An answer. `[1]` in the response points at the first citation. `model` is who answered."""

    response: str
    model: str
    citations: tuple[Reference, ...]
    usage: Usage
    conversation_id: str


class Exchange(Struct, frozen=True, array_like=True):
    """A question and its answer, each cut to what is remembered."""

    prompt: str
    response: str


class Memory(Struct, frozen=True, array_like=True):
    """What a conversation is about: the last query that was understood, and the last exchanges."""

    query: Query | None
    exchanges: tuple[Exchange, ...]

    def after(self, query: Query | None, prompt: str, response: str) -> "Memory":
        """What is remembered once this was answered too."""
        exchange = Exchange(prompt[:REMEMBERED_CHARACTERS], response[:REMEMBERED_CHARACTERS])
        return Memory(query or self.query, (*self.exchanges, exchange)[-REMEMBERED_TURNS:])


FORGOTTEN = Memory(None, ())


class Done(Struct, frozen=True, tag="done"):
    """The last event of a streamed answer: the whole answer."""

    response: str
    model: str
    citations: tuple[Reference, ...]
    usage: Usage
    conversation_id: str


class Failed(Struct, frozen=True, tag="error"):
    """The last event of a streamed answer that failed on its way; nothing was charged for it."""

    code: str
    status: int
    detail: str


def as_event(event: Struct) -> bytes:
    """One server-sent event: its name is the member `type` of its data."""
    name = event.__struct_config__.tag
    assert isinstance(name, str)
    return b"event: %b\ndata: %b\n\n" % (name.encode(), msgspec.json.encode(event))
