"""What a question to the chat costs: without a model, and what streaming adds to a model's first word.

`python benchmarks/chat.py [--small]` prints one JSON object. The baseline of the streamed part is the same model server
called directly with the official SDK in the same run: what is added is retrieval, the queries, and the checking of
every word before it leaves. A sentence that opens with what it cites leaves as it comes; one that cites at its end
leaves as far as its words claim nothing, which is measured as well (the server says a word every 5 ms).
Questions without a model are measured in processor time, against the same queries without reading the question.
`added_cpu_ms` is what was computed more than by the client alone: on a busy machine the clock tells little.
"""

import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from openai import AsyncOpenAI

from tollhouse.admission.context import open_context
from tollhouse.config.settings import Settings
from tollhouse.http.endpoint import JSON, Request
from tollhouse.http.terms import KeyCaller
from tollhouse.questions.grounding import Evidence
from tollhouse.questions.model_tools import QueryTools
from tollhouse.services.defense.brief.brief import BriefFeed
from tollhouse.services.defense.chat.endpoints import ChatEndpoints, ChatRequest, open_chat
from tollhouse.services.defense.chat.snapshot import Snapshot, Snapshots, load_recorded
from tollhouse.services.defense.events.feed import EventsFeed
from tollhouse.services.defense.news.feeds import NewsFeeds


class First(NamedTuple):
    """Milliseconds to the first text: by the clock, and of computing in this process."""

    wall: float
    cpu: float


ROOT = Path(__file__).resolve().parent.parent
PAUSE_SECONDS = 0.005
TIMES = 40
CALLER = KeyCaller("key_bench", "enterprise", None, "2026-01-01T00:00:00Z")
PROMPT = "How many battles were there in Ethiopia?"


async def main() -> None:
    times = 8 if "--small" in sys.argv else TIMES
    with tempfile.TemporaryDirectory() as folder:
        snapshot = await load_recorded(Path(folder))
        figures: dict[str, Any] = {"extractive": _extractive(snapshot)}
        for name, flags in (("streamed", ()), ("streamed_citing_last", ("--cites-last",))):
            with _fake(*flags) as url:
                figures[name] = await _streamed(snapshot, Path(folder), url, times)
    print(json.dumps(figures))


def _extractive(snapshot: Snapshot) -> dict[str, float]:
    """Milliseconds per question over every labelled question; the baseline is answering the queries that were read."""
    lines = (ROOT / "tests/data/questions/defense.jsonl").read_text("utf-8").splitlines()
    asked = [turn for line in lines for turn in json.loads(line)["turns"]]
    began = perf_counter()
    snapshot.engine.answer(asked[0])
    first = perf_counter() - began
    took = sorted(_timed(snapshot.engine.answer, prompt) for prompt in asked * 5)
    queries = [query for query in (snapshot.engine.answer(prompt).query for prompt in asked) if query is not None]
    given = statistics.median(_timed(snapshot.engine.answer_query, query) for query in queries * 5)
    return {
        "given_query_p50_ms": round(given, 3),
        "of_given_query": round(statistics.median(took) / given, 1),
        "questions": len(took),
        "p50_ms": round(statistics.median(took), 3),
        "p99_ms": round(took[int(len(took) * 0.99)], 3),
        "first_ms": round(first * 1_000, 1),
    }


def _timed(answer: Callable[[Any], object], given: Any) -> float:
    began = process_time()
    answer(given)
    return (process_time() - began) * 1_000


@contextmanager
def _fake(*flags: str) -> Iterator[str]:
    """The model server in a process of its own."""
    command = [sys.executable, "-m", "tests.fakes.model", str(PAUSE_SECONDS), *flags]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


async def _streamed(snapshot: Snapshot, folder: Path, url: str, times: int) -> dict[str, float]:
    """Milliseconds to the first token of the server, and to the first text that a caller of the chat gets."""
    settings = Settings(data_dir=str(folder), recorded=True, llm_base_url=url)
    async with open_context(settings) as context:
        events = EventsFeed(context.database, recorded=True)
        await events.refresh()
        news = NewsFeeds(context.database, events)
        await news.refresh()
        desk = await open_chat(
            context, Snapshots(context.database, events, news, BriefFeed(context.database, events, news))
        )
        client, messages = AsyncOpenAI(base_url=url, api_key="none", max_retries=0), _sent(snapshot)
        direct, ours = [], []
        for _ in range(times + 2):
            direct.append(await _first_directly(client, messages))
            ours.append(await _first_of_chat(desk))
    # The first two open connections and build the index.
    pairs = list(zip(direct[2:], ours[2:], strict=True))
    return {
        "direct_ms": round(statistics.median(their.wall for their, _ in pairs), 2),
        "chat_ms": round(statistics.median(our.wall for _, our in pairs), 2),
        "added_ms": round(statistics.median(our.wall - their.wall for their, our in pairs), 2),
        "added_cpu_ms": round(statistics.median(our.cpu - their.cpu for their, our in pairs), 2),
    }


def _sent(snapshot: Snapshot) -> list[dict[str, Any]]:
    """What the server has to be shown so that it reads out the same answer."""
    query = snapshot.engine.answer(PROMPT).query
    assert query is not None
    shown = QueryTools(snapshot.engine).shown(query, Evidence())
    return [{"role": "user", "content": f"{PROMPT}\n\nResults so far:\n{shown}"}]


async def _first_directly(client: AsyncOpenAI, messages: list[dict[str, Any]]) -> First:
    began = perf_counter(), process_time()
    stream = await client.chat.completions.create(model="fast", messages=messages, stream=True)
    async for chunk in stream:
        if chunk.choices and chunk.choices[0].delta.content:
            break
    took = _since(*began)
    await stream.close()
    return took


async def _first_of_chat(desk: ChatEndpoints) -> First:
    began = perf_counter(), process_time()
    events = desk.events(Request(None, ChatRequest(PROMPT, stream=True), {}, CALLER, "", JSON))
    async for event in events:
        if event.startswith(b"event: delta"):
            break
    took = _since(*began)
    await events.aclose()
    return took


def _since(wall: float, cpu: float) -> First:
    return First((perf_counter() - wall) * 1_000, (process_time() - cpu) * 1_000)


if __name__ == "__main__":
    asyncio.run(main())
