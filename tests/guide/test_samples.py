"""Every sample of every operation, in every language, against a started server: as they stand in its description."""

import asyncio
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import jsonschema_rs
import pytest
import pytest_asyncio

from tests.guide.stage import Behind, Stage, behind
from tests.journeys.server import Server, run
from tests.services.tables.books import books
from tollhouse.http.code_samples import lacking, samples, variables
from tollhouse.http.endpoint import Endpoint, Example
from tollhouse.http.terms import FREE
from tollhouse.services import SERVICES

# The first test waits for two servers and a chain, on a machine that may have other things to do.
pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

HERE = Path(__file__).parent
LANGUAGES = ("curl", "Python", "JavaScript")
AT_ONCE = 4
TABLE = "books"
ACCOUNTS = ("/api/keys/", "/api/agent/", "/api/stripe/")


@dataclass
class Call:
    """One operation of one service, with its samples by language and what they find in their environment."""

    service: str
    endpoint: str
    described: dict[str, Any]
    document: dict[str, Any]
    sources: dict[str, str]
    environments: dict[str, dict[str, str]]

    def jobs(self, language: str) -> dict[str, Any]:
        return {"source": self.sources[language], "environment": self.environments[language]}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def everything():
    async with behind() as there:
        yield there


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def servers(everything: Behind, start_server, tmp_path_factory) -> dict[str, Server]:
    """By service, a declared table among them. While one starts, this loop answers for Stripe."""
    home = tmp_path_factory.mktemp("with-a-table")
    (home / "books.csv").write_text(books(20), "utf-8")
    made = await asyncio.to_thread(run, "new", TABLE, "--from", "books.csv", cwd=home)
    assert made.returncode == 0, made.stderr
    many = await asyncio.to_thread(start_server, home=home, **everything.settings())
    facilitator = await asyncio.to_thread(
        start_server, "facilitator", is_recorded=False, **everything.facilitators_settings()
    )
    return {**dict.fromkeys([*SERVICES, TABLE], many), "facilitator": facilitator}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def calls(servers: dict[str, Server], everything: Behind) -> list[Call]:
    options = ("--tier", "enterprise", "--per-minute", 100_000)
    key = await asyncio.to_thread(servers["defense"].operators_key, *options)
    stage = Stage(servers["defense"], everything, key)
    calls = [call for name, server in servers.items() for call in await asyncio.to_thread(described, name, server)]
    for call in calls:
        for language, environment in call.environments.items():
            environment.update(await stage.environment(call.endpoint))
            assert language in LANGUAGES
    await stage.close()
    return calls


def described(service: str, server: Server) -> list[Call]:
    """What the service's own description says: its operations and their samples."""
    address = server.root if service == "facilitator" else f"{server.root}/{service}"
    document = httpx2.get(f"{address}/api/openapi.json", timeout=30).json()
    return [
        Call(
            service,
            operation["operationId"],
            operation,
            document,
            {sample["label"]: sample["source"] for sample in operation["x-codeSamples"]},
            {language: {"TOLLHOUSE_URL": address} for language in LANGUAGES},
        )
        for path, item in document["paths"].items()
        for operation in item.values()
        # What is paid call by call takes a client that signs.
        if operation["x-price"]["model"] != "request"
        # Accounts are the same on every server; their samples run on the other one, where the key is.
        if service != "facilitator" or not path.startswith(ACCOUNTS)
    ]


async def test_every_operation_of_every_service_has_a_sample_in_every_language(calls):
    assert {call.service for call in calls} == {*SERVICES, TABLE, "facilitator"}
    assert [call.endpoint for call in calls if tuple(call.sources) != LANGUAGES] == []


async def test_every_python_sample_succeeds(calls):
    check(calls, await ran(calls, "Python", [sys.executable, HERE / "run_samples.py"]))


async def test_every_javascript_sample_succeeds(calls):
    check(calls, await ran(calls, "JavaScript", ["node", HERE / "run_samples.mjs"]))


async def test_every_curl_sample_succeeds(calls, tmp_path):
    (tmp_path / ".curlrc").write_text('write-out = "\\n%{http_code}"\n')
    turns = asyncio.Semaphore(AT_ONCE)

    async def one(call: Call) -> dict[str, Any]:
        async with turns:
            job = call.jobs("curl")
            text = await output(["sh", "-c", job["source"]], CURL_HOME=str(tmp_path), **job["environment"])
        body, _, status = text.rpartition("\n")
        return {"status": int(status), "shown": json.loads(body) if answers_json(call) else body}

    check(calls, await asyncio.gather(*map(one, calls)))


async def ran(calls: list[Call], language: str, command: list[Any]) -> list[dict[str, Any]]:
    """All samples of one language in one process."""
    text = await output(command, json.dumps([call.jobs(language) for call in calls]))
    outcomes: list[dict[str, Any]] = json.loads(text)
    return outcomes


async def output(command: list[Any], sent: str = "", **environment: str) -> str:
    process = await asyncio.create_subprocess_exec(
        *map(str, command),
        env={**os.environ, **environment},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    text, failed = await process.communicate(sent.encode())
    assert process.returncode == 0, f"{command}\n{text.decode()[-2_000:]}\n{failed.decode()}"
    return text.decode()


def check(calls: list[Call], outcomes: list[dict[str, Any]]) -> None:
    """Each succeeded, and what it showed is what the description promises."""
    assert len(calls) == len(outcomes)
    wrong = [f"{call.endpoint}: {fault}" for call, outcome in zip(calls, outcomes, strict=True)
             for fault in faults(call, outcome)]  # fmt: skip
    assert wrong == []


def faults(call: Call, outcome: dict[str, Any]) -> list[str]:
    if outcome.get("status") != 200:
        return [str(outcome)]
    shown = outcome["shown"]
    if not answers_json(call):
        return [] if isinstance(shown, str) and shown else ["showed nothing"]
    (schema,) = [operation["schema"] for kind, operation in content(call).items() if "json" in kind][:1]
    whole = {**schema, "components": call.document["components"]}
    return [error.message for error in jsonschema_rs.Draft202012Validator(whole).iter_errors(shown)][:1]


def content(call: Call) -> dict[str, Any]:
    kinds: dict[str, Any] = call.described["responses"]["200"]["content"]
    return kinds


def answers_json(call: Call) -> bool:
    return next(iter(content(call))) in {"application/json", "application/ld+json"}


async def test_outcome_that_the_description_does_not_promise_is_a_fault(calls):
    one = next(call for call in calls if call.endpoint == "listRetailers")
    assert faults(one, {"failure": "Traceback"})
    assert faults(one, {"status": 402, "shown": {}})
    assert faults(one, {"status": 200, "shown": {"total": "many"}})
    table = next(call for call in calls if call.endpoint == "exportCsv")
    assert faults(table, {"status": 200, "shown": ""})
    assert not faults(table, {"status": 200, "shown": "id,title"})


async def nothing(_request):
    raise AssertionError("no call reaches it")


def operation(path="/things", **declared: Any) -> Endpoint:
    return Endpoint("getThing", "GET", path, "A thing", nothing, FREE, **declared)


async def test_operation_without_an_example_is_lacking_it_and_has_no_sample():
    bare = operation("/things/{id}", path_parameters={"id": {"schema": {"type": "string"}}})
    assert lacking(bare) == ["id"]
    assert samples(bare) == []
    assert lacking(operation(takes_bytes=True)) == ["body"]
    assert lacking(operation()) == []


async def test_variables_are_read_from_the_environment_and_all_else_is_written_out():
    made = operation("/things/{id}", path_parameters={"id": {}},
                     sample=Example({"id": "$THING_ID"}, {"q": "a b&c", "n": 3}))  # fmt: skip
    assert variables(made) == ["TOLLHOUSE_URL", "THING_ID"]
    curl, python, javascript = (sample.source for sample in samples(made))
    assert '"$TOLLHOUSE_URL/things/$THING_ID?q=a+b%26c&n=3"' in curl
    assert "{os.environ['TOLLHOUSE_URL']}/things/{os.environ['THING_ID']}?q=a+b%26c&n=3" in python
    assert "${process.env.TOLLHOUSE_URL}/things/${process.env.THING_ID}?q=a+b%26c&n=3" in javascript
