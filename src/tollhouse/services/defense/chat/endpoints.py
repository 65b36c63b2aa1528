"""Endpoint `POST /chat`: a question is answered whole or as server-sent events, within the plan's daily limit."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from functools import partial
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from tollhouse.admission.context import AppContext
from tollhouse.errors import Problem, missing_credentials
from tollhouse.http.endpoint import JSON, Request, Response, endpoint
from tollhouse.http.terms import AGENT_CALL, Caller, KeyCaller, VisitorCaller, WalletCaller, key_with
from tollhouse.logs import logger
from tollhouse.metering.address_budget import release, reserve_for_address
from tollhouse.metering.meter import Windows
from tollhouse.questions.conversation import LONGEST_ID, Conversations, open_conversations
from tollhouse.questions.dialogue import Budget, quota_exceeded
from tollhouse.questions.explanation import Explanation
from tollhouse.questions.grounding import Delta, Reference, Retract, Step
from tollhouse.questions.language_model import Model
from tollhouse.services.defense.chat.answers import (
    EXTRACTIVE,
    ChatAnswer,
    Memory,
    ModelAnswerer,
    Question,
    answer_without_model,
)
from tollhouse.services.defense.chat.snapshot import Snapshots

log = logger("chat")

EVENT_STREAM = "text/event-stream"

_SECRET_NAME = "defense-conversation"  # noqa: S105

_EXAMPLE_REQUEST: dict[str, Any] = {"prompt": "How many battles were there in Rwanda?"}
_EXAMPLE_REPLY: dict[str, Any] = {
    "understood": {
        "about": "events (category Battles; country Rwanda)",
        "parts": [{"part": "category", "words": "battles"}, {"part": "country", "words": "Rwanda"}],
        "ignored": [],
        "corrected": [],
    },
    "figures": None,
    "refusal": None,
    "suggestions": ["Which country has the most protests?"],
    "response": "0 events (category Battles; country Rwanda). "
    "Window: the 24 hours up to 2020-11-15 11:00 UTC (a recording; 18% of it was read).",
    "model": "extractive",
    "citations": [],
    "usage": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
    "conversation_id": "conv_gm0d7n0Cq2YH6rEXAMPLE",
}
_EVENTS: dict[str, Any] = {
    "type": "object",
    "description": "Server-sent events, each like this: `step` (`name` and `detail` of what is being done; only with "
    "`steps`), `delta` (`text` to append), `retract` (cut the text back to `length` characters), and at the end `done` "
    "(the whole answer) or `error` (`code`, `status`, `detail`).",
    "required": ["event", "data"],
    "properties": {
        "event": {"enum": ["step", "delta", "retract", "done", "error"]},
        "data": {"type": "string", "contentMediaType": "application/json", "description": "The event as JSON"},
    },
}

LONGEST_PROMPT = 8_000
VISITOR_QUESTIONS_PER_DAY = 10
"""Of one client address, in the page and without a key, where no language model answers."""


class ChatRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of `POST /chat`."""

    prompt: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=LONGEST_PROMPT,
            description="A question about the last 24 hours, in English, German, Spanish or French",
            examples=["How many battles were there in Ethiopia?"],
        ),
    ]
    model: Annotated[
        Annotated[str, Meta(max_length=200)] | None, Meta(description="One of the two models named in the settings")
    ] = None
    conversation_id: Annotated[
        Annotated[str, Meta(max_length=LONGEST_ID)] | None,
        Meta(description="The `conversation_id` of the previous answer, for a follow-up question within an hour"),
    ] = None
    stream: Annotated[bool, Meta(description="Answer as server-sent events: delta, retract, done or error")] = False
    steps: Annotated[
        bool,
        Meta(description="With `stream`: events of type `step` say what is being done. Errors then come as events"),
    ] = False


class ChatUsage(Struct, frozen=True):
    """Tokens of the language model; 0 when none was used."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class ChatReply(Explanation, frozen=True, kw_only=True):
    """An answer. `[1]` in the response refers to the first citation. `model` is the model that answered.

    `understood` is the question as it was read, and `figures` those that the answer rests on, both null where there are
    none. `refusal` says why it was refused. `suggestions` have answers: what to ask next, or instead.
    """

    response: str
    model: str
    citations: tuple[Reference, ...]
    usage: ChatUsage
    conversation_id: str


class Done(ChatReply, frozen=True, tag="done"):
    """The last event of a streamed answer: the whole answer."""


class _Refused(Done, frozen=True, tag="done"):
    """The last event of a question that the feeds cannot answer: it costs nothing."""


class Failed(Struct, frozen=True, tag="error"):
    """The last event of a streamed answer that failed on its way; nothing was charged for it."""

    code: str
    status: int
    detail: str


def encode_event(event: Struct) -> bytes:
    """One server-sent event: its name is the member `type` of its data."""
    name = event.__struct_config__.tag
    assert isinstance(name, str)
    return b"event: %b\ndata: %b\n\n" % (name.encode(), msgspec.json.encode(event))


ChatCall = Request[None, ChatRequest]


class ChatEndpoints:
    """The endpoint `POST /chat`. `answerer` is None when no model is configured."""

    def __init__(
        self,
        context: AppContext,
        snapshots: Snapshots,
        conversations: Conversations[Memory],
        answerer: ModelAnswerer | None,
    ) -> None:
        self._models = tuple(dict.fromkeys((context.settings.model_fast, context.settings.model_pro)))
        self._snapshots = snapshots
        self._conversations = conversations
        self._meter = context.meter
        self._answerer = answerer
        self._plans = context.plans

    @endpoint(
        "POST",
        "/chat",
        id="chat",
        terms=key_with("chat", price=AGENT_CALL),
        body=ChatRequest,
        responses={JSON: ChatReply, EVENT_STREAM: _EVENTS},
        problems=("upstream-unavailable", "quota-exceeded"),
        tag="chat",
        is_tool=True,
        visit_types=(JSON, EVENT_STREAM),
        examples={"body": _EXAMPLE_REQUEST, JSON: _EXAMPLE_REPLY},
    )
    async def chat(self, request: ChatCall) -> Response:
        """Ask a question about the last 24 hours in plain words: English, German, Spanish or French.

        Every figure comes from a query over the feeds, and every claim cites its stories or events: `[1]`
        refers to the first of `citations`. `x-plans` lists the questions a day of each plan. A question that
        the feeds cannot answer is refused with the reason, and costs nothing. With `stream`, the answer is sent
        as server-sent events.
        """
        is_stream = request.body.stream or request.media_type == EVENT_STREAM
        if is_stream and not isinstance(request.caller, WalletCaller):
            stream = await _begun(self.events(request))
            return Response(b"", EVENT_STREAM, cache_control="no-store", stream=stream)
        # A wallet pays for a complete answer, so it is built before any of it is sent.
        parts = [part async for part in self._answered(request)]
        done = parts[-1]
        assert isinstance(done, Done), "an answer ends with Done"
        reply = ChatReply(**{name: getattr(done, name) for name in ChatReply.__struct_fields__})
        media_type = EVENT_STREAM if is_stream else JSON
        body = b"".join(map(encode_event, parts)) if is_stream else msgspec.json.encode(reply)
        return Response(body, media_type, cache_control="no-store", is_free=isinstance(done, _Refused))

    async def events(self, request: ChatCall) -> AsyncGenerator[bytes, None]:
        """The answer as server-sent events. A failure before the first event raises Problem; later it is an event."""
        has_begun = False
        try:
            async with aclosing(self._answered(request)) as parts:
                async for part in parts:
                    has_begun = True
                    yield encode_event(part)
        except Problem as problem:
            if not has_begun:
                raise
            yield encode_event(Failed(problem.code, problem.status, problem.detail))

    async def _answered(self, request: ChatCall) -> AsyncGenerator[Step | Delta | Retract | Done, None]:
        body, caller = request.body, request.caller
        assert caller is not None
        model = self._model_named(body.model)
        given = body.conversation_id
        memory = (self._conversations.decode(given, caller.subject) if given else None) or Memory()
        per_day = self._questions_per_day(caller)
        question = Question(body.prompt, model, caller.subject, memory, has_ceiling=per_day is not None)
        async with (
            self._one_question(caller, per_day) as give_back,
            aclosing(self._parts(request, question)) as parts,
        ):
            async for part in parts:
                if isinstance(part, ChatAnswer) and part.is_refused:
                    await give_back()
                if not isinstance(part, Step) or body.steps:
                    yield self._finish(part, question) if isinstance(part, ChatAnswer) else part

    def _questions_per_day(self, caller: Caller) -> int | None:
        """The plan's cap, or the visitor's; None for unlimited. An agent pays for each call instead.

        Raises Problem `missing-credentials` for a visitor where a language model answers.
        """
        if isinstance(caller, KeyCaller):
            return self._plans.plan_of(caller).chat_per_day
        if isinstance(caller, VisitorCaller):
            if self._answerer is not None:
                raise missing_credentials("A question to the language model requires an API key whose plan has `chat`.")
            return VISITOR_QUESTIONS_PER_DAY
        return None

    async def _parts(
        self, request: ChatCall, question: Question
    ) -> AsyncGenerator[Step | Delta | Retract | ChatAnswer, None]:
        yield Step("read", "the question")
        snapshot = await self._snapshots.present(request)
        if self._answerer is None:
            async with snapshot.answering:
                answer = await asyncio.to_thread(answer_without_model, snapshot, question)
            if answer.explanation.understood:
                yield Step("query", answer.explanation.understood.about)
            yield Delta(answer.answer.text)
            yield answer
            return
        async with aclosing(self._answerer.answer(snapshot, question)) as parts:
            async for part in parts:
                yield part

    def _finish(self, part: ChatAnswer, question: Question) -> Done:
        answer = part.answer
        memory = question.memory.after(part.query, question.prompt, answer.text)
        form = _Refused if part.is_refused else Done
        return form(
            response=answer.text,
            model=question.model if self._answerer else EXTRACTIVE,
            citations=answer.citations,
            usage=ChatUsage(
                prompt_tokens=answer.prompt_tokens,
                completion_tokens=answer.completion_tokens,
                total_tokens=answer.prompt_tokens + answer.completion_tokens,
            ),
            conversation_id=self._encode(memory, question.subject),
            understood=part.explanation.understood,
            figures=part.explanation.figures,
            refusal=part.explanation.refusal,
            suggestions=part.explanation.suggestions,
        )

    def _encode(self, memory: Memory, subject: str) -> str:
        """The conversation's id; without the query where that is too long for one."""
        encoded = self._conversations.encode(memory, subject)
        short = replace(memory, query=None)
        return encoded if len(encoded) <= LONGEST_ID else self._conversations.encode(short, subject)

    def _model_named(self, name: str | None) -> str:
        allowed = self._models if self._answerer else (*self._models, EXTRACTIVE)
        if name is not None and name not in allowed:
            raise Problem(
                "invalid-body",
                f"`model` must be one of: {', '.join(allowed)}.",
                parameter="model",
                allowed=list(allowed),
            )
        return name or self._models[0]

    @asynccontextmanager
    async def _one_question(
        self, caller: Caller, per_day: int | None
    ) -> AsyncGenerator[Callable[[], Awaitable[Any]], None]:
        """Count one question against the caller's daily cap. A question that fails does not count.

        Yields what releases a question that is refused.
        """
        if per_day is None:
            yield _nothing
            return
        windows = Windows(per_day, None)
        if isinstance(caller, VisitorCaller):
            reservation = await reserve_for_address(self._meter, "visit-question", caller.address, windows)
        else:
            reservation = await self._meter.reserve(f"chat:{caller.subject}", windows)
        if reservation.verdict.refused_by:
            raise quota_exceeded(reservation, f"{per_day} questions")
        give_back = partial(release, self._meter, reservation)
        try:
            yield give_back
        except Exception:
            await give_back()
            raise


async def _nothing() -> None:
    """Release nothing: the question was not counted."""


async def _begun(events: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """The same events with the first already produced, so that an early failure is an ordinary problem response."""
    first = await anext(events)

    async def all_of_them() -> AsyncGenerator[bytes, None]:
        try:
            yield first
            async for event in events:
                yield event
        finally:
            await events.aclose()

    return all_of_them()


async def open_chat(context: AppContext, snapshots: Snapshots) -> ChatEndpoints:
    """Build the endpoint from the settings. Raises SettingError if a model is configured and its package is missing."""
    settings = context.settings
    conversations = await open_conversations(context.database, _SECRET_NAME, Memory)
    answerer = None
    if settings.llm_base_url:
        budget = Budget(context.meter, settings.llm_tokens_per_day)
        answerer = ModelAnswerer(Model(settings), budget, settings.llm_timeout_seconds)
        log.info("chat model configured", fast=settings.model_fast, pro=settings.model_pro)
    else:
        log.info("chat runs without a model: llm_base_url is not set", model=EXTRACTIVE)
    return ChatEndpoints(context, snapshots, conversations, answerer)
