"""`tollhouse webhooks` as an operator uses it: started commands beside one another on one data folder."""

import asyncio
import json
from subprocess import CompletedProcess

import pytest
from standardwebhooks.webhooks import Webhook

from tests.journeys.server import run
from tests.servers.databases import migrated_copy
from tollhouse.config.settings import Settings
from tollhouse.services import SERVICES
from tollhouse.storage.database import open_database
from tollhouse.webhooks import outbox
from tollhouse.webhooks.webhooks import open_webhooks

SERVICE = next(iter(SERVICES))


@pytest.fixture
def webhooks(tmp_path):
    def command(*arguments: object, loopback: bool = True) -> CompletedProcess[str]:
        return run(
            "webhooks", *arguments, "--data-dir", tmp_path / "data", cwd=tmp_path, webhook_allow_loopback=loopback
        )

    return command


@pytest.fixture
def deliver(tmp_path):
    """What a server over the same folder would do: put one event for each number, and deliver what is due."""
    migrated_copy(tmp_path / "data")

    async def work(numbers: range) -> int:
        settings = Settings(data_dir=str(tmp_path / "data"), webhook_allow_loopback=True)
        database = open_database(settings)
        opened = open_webhooks(settings, database)
        async with database.writing() as transaction:
            for number in numbers:
                await outbox.put(transaction, SERVICE, "product.created", {"number": number}, f"prod_{number}")
        made = await opened.deliver_due()
        await opened.close()
        await database.close()
        return made

    return lambda numbers=range(0): asyncio.run(work(numbers))


def answer(done):
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def added(webhooks, hook, *options: object):
    (made,) = answer(webhooks("add", "--service", SERVICE, "--url", hook.url(), "--email", "ada@example.org", *options))
    return made


def test_endpoint_is_added_used_rotated_and_removed(webhooks, deliver, hook):
    made = added(webhooks, hook, "--types", "product.created, product.removed")
    assert made["id"].startswith("whk_")
    assert made["secret"].startswith("whsec_")
    assert (made["status"], made["types"]) == ("active", ["product.created", "product.removed"])
    deliver(range(1))
    (told,) = hook.taken
    assert Webhook(made["secret"]).verify(told.body, told.headers)

    listed = webhooks("list")
    assert "whsec_" not in listed.stdout
    assert made["secret"].removeprefix("whsec_") not in listed.stdout
    (line,) = answer(listed)
    assert (line["id"], line["email"], line["last_success_at"] is None) == (made["id"], "ada@example.org", False)

    (rotated,) = answer(webhooks("rotate", made["id"]))
    deliver(range(1, 2))
    for secret in (made["secret"], rotated["secret"]):
        assert Webhook(secret).verify(hook.taken[-1].body, hook.taken[-1].headers)

    assert answer(webhooks("remove", made["id"])) == [{"removed": True, "id": made["id"]}]
    again = webhooks("remove", made["id"])
    assert (again.returncode, again.stdout) == (1, "")
    assert made["id"] in again.stderr
    assert answer(webhooks("list")) == []
    assert deliver(range(2, 3)) == 0


def test_failing_endpoint_is_shown_and_what_was_parked_is_replayed(webhooks, deliver, hook):
    made = added(webhooks, hook)
    hook.mode = "error"
    deliver(range(1))
    (line,) = answer(webhooks("list"))
    assert (line["status"], line["consecutive_failures"], line["last_error"]) == ("failing", 1, "status 500")
    (waiting,) = answer(webhooks("deliveries", "--endpoint", made["id"], "--state", "pending"))
    assert [attempt["status"] for attempt in waiting["attempts"]] == [500]
    assert answer(webhooks("replay", waiting["id"]))[0]["state"] == "pending"

    hook.mode = "gone"
    deliver(range(1, 2))
    (line,) = answer(webhooks("list"))
    assert line["status"] == "disabled"
    parked = answer(webhooks("deliveries", "--state", "parked"))
    assert len(parked) == 2
    assert webhooks("replay", parked[0]["id"]).returncode == 1
    hook.mode = "ok"
    assert answer(webhooks("enable", made["id"]))[0]["status"] == "active"
    late = webhooks("replay", "--endpoint", made["id"], "--since", "2999-01-01")
    assert answer(late) == [{"endpoint": made["id"], "replayed": 0}]
    assert answer(webhooks("replay", "--endpoint", made["id"])) == [{"endpoint": made["id"], "replayed": 2}]
    assert deliver() == 2
    assert len(hook.taken) == 2
    delivered = answer(webhooks("deliveries", "--state", "delivered", "--limit", 1))
    assert len(delivered) == 1
    assert answer(webhooks("replay", delivered[0]["id"]))[0]["state"] == "pending"
    assert deliver() == 1
    assert hook.taken[-1].id == delivered[0]["event_id"]


def test_endpoint_is_changed(webhooks, deliver, hook):
    made = added(webhooks, hook, "--types", "product.removed")
    (changed,) = answer(webhooks("change", made["id"], "--url", hook.url("/new"), "--types", ""))
    assert (changed["url"], changed["types"], changed["email"]) == (hook.url("/new"), [], "ada@example.org")
    deliver(range(1))
    assert [told.path for told in hook.taken] == ["/new"]
    assert webhooks("change", made["id"], "--url", "https://10.0.0.1/").returncode == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--service", "nowhere"), "no service"),
        (("--url", "https://10.0.0.1/"), "public address"),
        (("--url", "ftp://good.example/"), "https://"),
        (("--email", "nobody"), "email"),
        (("--types", "Created"), "type"),
    ],
)
def test_wrong_endpoint_is_refused_in_one_line(webhooks, hook, options, said):
    given = {"--service": SERVICE, "--url": hook.url(), "--email": "ada@example.org", options[0]: options[1]}
    refused = webhooks("add", *(part for pair in given.items() for part in pair))
    assert (refused.returncode, refused.stdout) == (1, "")
    assert said in refused.stderr
    assert len(refused.stderr.splitlines()) == 1


def test_this_machine_is_refused_without_the_setting(webhooks, hook):
    options = ("--service", SERVICE, "--url", hook.url(), "--email", "ada@example.org")
    assert webhooks("add", *options, loopback=False).returncode == 1


@pytest.mark.parametrize(
    "arguments",
    [("replay",), ("replay", "dlv_1", "--endpoint", "whk_1"), ("replay", "dlv_1", "--since", "2026-01-01"),
     ("replay", "dlv_unknown"), ("rotate", "whk_unknown"), ("enable", "whk_unknown"), ("change", "whk_unknown"),
     ("replay", "--endpoint", "whk_unknown"), ("deliveries", "--state", "lost"), ("deliveries", "--limit", "0")],
)  # fmt: skip
def test_command_about_nothing_fails(webhooks, arguments):
    failed = webhooks(*arguments)
    assert failed.returncode != 0
    assert failed.stdout == ""
    assert failed.stderr
