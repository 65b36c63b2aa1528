"""The log tells what happened, one JSON object a line, and never a secret."""

import json
import sys
from pathlib import Path

import pytest

from tests.servers.processes import run
from tollhouse import logs


def told_by(script, *arguments: object):
    """What a program writes: loggers remember where they wrote first, so each test has a process of its own."""
    ended = run(_execute, script, *map(str, arguments), cwd=Path.cwd())
    assert ended.returncode == 0, ended.stderr
    return ended.stdout, ended.stderr


def _execute(script: str, *arguments: str) -> None:
    sys.argv = ["-c", *arguments]
    exec(script, {"__name__": "__main__"})  # noqa: S102 - the programs are this module's


@pytest.mark.parametrize(
    "text",
    [
        "th_live_0123456789abcdefABCDEF0123456789a",
        "the key th_live_abc was sent",
        "postgresql://me:hunter2@localhost/x refused",
        "redis://:hunter2@localhost",
        "Authorization: Bearer th_live_abc",
    ],
)
def test_secret_inside_a_text_is_masked(text):
    masked = logs.masked(text)
    assert "hunter2" not in masked
    assert "th_live_" not in masked
    assert "***" in masked


def test_text_without_a_secret_is_left_alone():
    for text in ("a plain line", "https://example.org/a@b", "key_0123456789abcdef", "a:b@c"):
        assert logs.masked(text) == text


@pytest.mark.parametrize(
    "name", ["api_key", "admin_token", "key_hash_secret", "authorization", "password", "Authorization", "signature"]
)
def test_secret_field_loses_its_value(name):
    assert logs.redact(None, "info", {name: "hunter2", "other": 5}) == {name: "***", "other": 5}


@pytest.mark.parametrize(
    "value", [["th_live_abc"], {"api_key": "hunter2"}, {"a": {"b": ["th_live_abc"]}}, b"th_live_abc"]
)
def test_secret_inside_a_structure_is_masked(value):
    told = json.dumps(logs.redact(None, "info", {"value": value}), default=repr)
    assert "th_live_abc" not in told
    assert "hunter2" not in told


def test_exception_text_is_masked_and_levels_hold():
    _, told = told_by("""
from tollhouse import logs

logs.configure("warning")
logs.logger("test").info("quiet")
try:
    raise ValueError("th_live_abc postgresql://me:hunter2@localhost/x")
except ValueError:
    logs.logger("test").exception("failed")
""")
    assert "quiet" not in told
    assert "ValueError" in told
    assert "th_live_abc" not in told
    assert "hunter2" not in told


SERVE = """
import asyncio, json, sys
import httpx2
from tollhouse import app, logs
from tollhouse.config.settings import Settings

async def main():
    settings = Settings(data_dir=sys.argv[1], recorded=False, background_work=False, operator_token="hunter2-token")
    logs.configure("debug")
    async with app.serving(settings) as gate:
        transport = httpx2.ASGITransport(app=gate.handle)
        async with httpx2.AsyncClient(transport=transport, base_url="http://test/defense") as client:
            created = (await client.post("/api/keys/create", json={"email": "ada@example.org"})).json()
            key = created["api_key"]
            bearer = {"Authorization": f"Bearer {key}"}
            await client.get("/feeds/events", headers=bearer)
            await client.get("/feeds/events", headers={"Authorization": f"Bearer {key}x"})
            await client.get(f"/feeds/events?q={key}", headers=bearer)
            await client.get(f"/{key}", headers=bearer)
            await client.get("/health", headers={"X-Request-Id": key})
            rotated = (await client.post("/api/keys/rotate", headers=bearer)).json()["api_key"]
            await client.get("http://test/metrics", headers={"Authorization": "Bearer hunter2-token"})

            async def fail():
                raise ZeroDivisionError(f"with {rotated}")

            router = gate._router
            route = router._literal["/defense/health"]["GET"]
            object.__setattr__(route.endpoint, "handler", lambda asked: fail())
            failed = await client.get("/health", headers={"X-Request-Id": "find-me"})
    print(json.dumps({"secrets": [key, rotated, "hunter2-token"], "failed": failed.status_code}))

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    printed, told = told_by(SERVE, tmp_path_factory.mktemp("served"))
    return json.loads(printed), told


def test_no_key_reaches_the_log(served):
    printed, told = served
    assert "request handled" in told
    for secret in printed["secrets"]:
        assert secret not in told


def test_every_line_is_an_object(served):
    for line in served[1].splitlines():
        assert {"event", "level", "timestamp"} <= set(json.loads(line))


def test_failure_is_found_by_its_request_id(served):
    printed, told = served
    assert printed["failed"] == 500
    (failed,) = [line for line in map(json.loads, told.splitlines()) if line["event"] == "unexpected failure"]
    assert failed["request_id"] == "find-me"
    assert "ZeroDivisionError" in failed["exception"]
