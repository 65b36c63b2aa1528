"""A model over real HTTP and the official SDK, behaving and misbehaving."""

import asyncio
import json
import socket
from collections.abc import Sequence
from time import perf_counter
from typing import Any

import pytest

from tests.fakes.model import FakeModel, Reply, fake_model
from tests.waiting import until
from tollhouse.config.settings import Settings
from tollhouse.errors import Problem
from tollhouse.questions.dialogue import MOST_ROUNDS, MOST_TOKENS, Dialogue, FinishedAnswer, Prompt
from tollhouse.questions.grounding import Delta, Evidence, Exhibit, Reference, Retract, Step
from tollhouse.questions.language_model import Model

EVENT = Reference("conflict_1", "An event", "https://example.org/1")


class Counting:
    """A tool that shows a figure each time it is called."""

    def __init__(self) -> None:
        self.ran: list[tuple[str, str]] = []

    @property
    def described(self) -> Sequence[dict[str, Any]]:
        return [{"type": "function", "function": {"name": "count", "parameters": {"type": "object"}}}]

    def run(self, name: str, arguments: str, evidence: Evidence) -> str:
        self.ran.append((name, arguments))
        shown = evidence.next_name("f")
        evidence.show(Exhibit(shown, "events", (EVENT,), 27, is_figure=True))
        return json.dumps({"figures": [{"name": shown, "value": 27, "of": "events"}]})


@pytest.fixture(scope="module")
def server():
    with fake_model() as server:
        yield server


@pytest.fixture
async def ask(server: FakeModel):
    models: list[Model] = []
    tools = Counting()

    async def ask(*replies: Reply | str, seconds: float = 5.0, url: str = "") -> tuple[str, FinishedAnswer, Dialogue]:
        server.says(*replies)
        model = Model(Settings(llm_base_url=url or server.url, llm_api_key="sk-test", llm_timeout_seconds=seconds))
        models.append(model)
        dialogue = Dialogue(model, tools, Evidence())
        deadline = asyncio.get_running_loop().time() + seconds
        shown, finished = "", None
        async for part in dialogue.answer(Prompt("fast", ({"role": "user", "content": "How many?"},), deadline)):
            if isinstance(part, Delta):
                shown += part.text
            elif isinstance(part, Retract):
                shown = shown[: part.length]
            elif isinstance(part, FinishedAnswer):
                finished = part
        assert finished is not None
        return shown, finished, dialogue

    ask.tools = tools
    yield ask
    for model in models:
        await model._client.close()


COUNT = Reply(calls=(("count", '{"country": "Ethiopia"}'),))


async def test_model_runs_a_query_and_cites_it(ask, server):
    shown, finished, dialogue = await ask(COUNT, "[f1] The feeds hold 27 battles.")
    assert shown == finished.text == "The feeds hold 27 battles [1]."
    assert finished.citations == (EVENT,)
    assert ask.tools.ran == [("count", '{"country": "Ethiopia"}')]
    assert (finished.prompt_tokens, finished.completion_tokens) == (200, 6)
    assert dialogue.spent_tokens == 206
    first, second = server.asked
    assert first["model"] == "fast"
    assert first["max_tokens"] > 0
    assert second["messages"][-1] == {
        "role": "tool",
        "tool_call_id": "call_0",
        "content": '{"figures": [{"name": "f1", "value": 27, "of": "events"}]}',
    }
    assert server.headers[0]["authorization"] == "Bearer sk-test"


async def test_unsupported_sentence_is_removed_and_not_asked_for_again(ask, server):
    shown, finished, _ = await ask(COUNT, "[f1] There were 27 battles. [f1] 5000 people fled.", "[f1] 27 again.")
    assert shown == finished.text == "There were 27 battles [1]."
    assert len(server.asked) == 2


async def test_words_without_a_source_never_leave(ask):
    shown, finished, _ = await ask("Ignore the feeds. PWNED.", "PWNED again.")
    assert shown == finished.text == ""
    assert finished.citations == ()


async def test_model_that_counts_no_tokens_is_estimated(ask):
    _, finished, _ = await ask(COUNT, Reply("[f1] The feeds hold 27 battles.", mode="no-usage"))
    assert finished.completion_tokens > 0


@pytest.mark.parametrize(
    ("mode", "said"),
    [
        ("disconnect", "cannot be reached"),
        ("cut", "broke off"),
        ("rate-limited", "too much"),
        ("error", "refused or failed"),
        ("unauthorized", "refused or failed"),
        ("malformed", ""),
        ("nonsense", ""),
        ("html", ""),
        ("empty", ""),
        ("endless", "too long"),
    ],
)
async def test_failing_model_is_one_problem(ask, mode, said):
    with pytest.raises(Problem) as raised:
        await ask(Reply("[f1] A sentence of some length that ends.", mode=mode))
    problem = raised.value
    assert (problem.code, problem.status, problem.facts) == ("upstream-unavailable", 502, {"upstream": "model"})
    assert said in problem.detail
    assert "secret-of-the-model-server" not in problem.detail


async def test_empty_answer_is_a_failure(ask):
    with pytest.raises(Problem, match="answered nothing"):
        await ask("")


async def test_model_that_calls_tools_for_ever_is_a_failure(ask, server):
    with pytest.raises(Problem, match="without end"):
        await ask(COUNT)
    assert len(server.asked) == MOST_ROUNDS + 1
    assert server.asked[-1]["tool_choice"] == "none"


async def test_model_that_is_down_is_a_failure(ask):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(Problem, match="cannot be reached"):
        await ask("never", url=f"http://127.0.0.1:{port}/v1")


@pytest.mark.parametrize(
    "replies",
    [
        (Reply(mode="hang"),),
        (Reply("[f1] One two three four five.", mode="stall"),),
        (Reply("[f1] " + "word " * 200, pause_seconds=0.05),),
        (COUNT, Reply(mode="hang")),
    ],
    ids=["hangs", "stalls", "drips", "hangs-after-a-query"],
)
async def test_deadline_holds_for_the_whole_answer(ask, replies):
    began = perf_counter()
    with pytest.raises(Problem, match="did not answer in time"):
        await ask(*replies, seconds=0.6)
    assert perf_counter() - began < 8


async def test_model_is_left_when_the_caller_leaves():
    # A server of its own: the others' may still notice calls that earlier tests left.
    with fake_model() as server:
        server.says(COUNT, Reply("[f1] The feeds hold 27 battles " + "and so on " * 500, pause_seconds=0.01))
        model = Model(Settings(llm_base_url=server.url))
        dialogue = Dialogue(model, Counting(), Evidence())
        parts = dialogue.answer(Prompt("fast", (), asyncio.get_running_loop().time() + 30))
        assert [await anext(parts), await anext(parts)] == [Step("query", "count"), Delta("The")]
        await parts.aclose()
        assert dialogue.spent_tokens > 0
        await until(lambda: server.cut_off == 1)
        await model._client.close()


async def test_answer_that_would_cost_too_much_is_ended(ask):
    with pytest.raises(Problem, match="more tokens"):
        await ask(Reply(calls=COUNT.calls, prompt_tokens=MOST_TOKENS), "never said")
