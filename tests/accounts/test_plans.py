"""Plans are data: the settings file adds one, and no code compares a plan's name."""

import ast
import json
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.http.conftest import asgi_client
from tests.servers.databases import migrated_copy
from tollhouse import app
from tollhouse.accounts.plans import open_plans
from tollhouse.admission.context import open_context
from tollhouse.config.settings import SettingError, Settings
from tollhouse.metering.meter import Windows
from tollhouse.services import load_settings

SOURCE = Path(__file__).parents[2] / "src" / "tollhouse"
TEAM = """
stripe_secret_key = "sk_test"
[stripe_prices]
price_team_month = "team"

[plans.team]
requests_per_day = 500
requests_per_minute = 20
price_usd_month = 19.90
price_usd_year = 190
entitlements = ["chat", "alerts"]
chat_per_day = 2
"""
# Other names than the defaults': a comparison with one of those would be seen.
OTHERS = """
default_plan = "a"

[plans.a]
requests_per_day = 5
requests_per_minute = 4
price_usd_month = 0

[plans.b]
requests_per_day = 50
requests_per_minute = 40
price_usd_month = 10
entitlements = ["chat"]
chat_per_day = 1

[plans.c]
requests_per_minute = 400
price_usd_month = 20
entitlements = ["chat", "alerts", "analysis"]
"""
QUESTION = {"prompt": "How many battles were there in Ethiopia?"}


class Place:
    def __init__(self, client, settings) -> None:
        self.client, self.settings = client, settings

    async def key(self, plan):
        async with open_context(self.settings, answers_calls=False) as context:
            made = await context.keys.create("ada@example.org", plan)
        return {"Authorization": f"Bearer {made.text}"}

    async def chat(self, key):
        return await self.client.post("/chat", json=QUESTION, headers=key)

    async def alerts(self, key):
        return await self.client.get("/api/alerts", headers=key)


def load(folder: Path, text: str) -> Settings:
    file = folder / "tollhouse.toml"
    file.write_text(text)
    return load_settings(str(file), data_dir=str(folder), recorded=True, service="defense", background_work=False)


@asynccontextmanager
async def serving(folder: Path, text: str):
    settings = load(migrated_copy(folder), text)
    async with app.serving(settings) as server, asgi_client(server.handle) as client:
        yield Place(client, settings)


async def test_plan_of_the_settings_file_holds_everywhere(tmp_path):
    async with serving(tmp_path, TEAM) as place:
        key = await place.key("team")
        assert [(await place.chat(key)).status_code for _ in range(3)] == [200, 200, 429]
        assert (await place.alerts(key)).status_code == 200
        refused = await place.client.post("/api/analysis", json={"group_by": ["country"]}, headers=key)
        assert (refused.status_code, refused.json()["required_tier"]) == (403, "enterprise")
        free = await place.chat(await place.key("free"))
        assert (free.status_code, free.json()["required_tier"]) == (403, "team")
        status = (await place.client.get("/api/keys/verify", headers=key)).json()
        assert (status["tier"], status["limits"]) == ("team", {"requests_per_day": 500, "requests_per_minute": 20})
        description = (await place.client.get("/api/openapi.json")).json()
        assert [plan["tier"] for plan in description["x-plans"]] == ["free", "team", "pro", "enterprise"]
        assert description["x-plans"][1]["price_per_month_usd"] == "19.90"
        assert description["paths"]["/chat"]["post"]["x-price"]["minimum_tier"] == "team"
        assert "team" in (await place.client.get("/llms.txt")).text
        page = (await place.client.get("/keys")).text
        assert "team" in page
        assert "price_team_month" in page
        request = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        tools = (await place.client.post("/mcp", json=request)).json()["result"]["tools"]
        assert "team" in next(tool["description"] for tool in tools if tool["name"] == "chat")


async def test_plans_of_other_names_are_treated_alike(tmp_path):
    async with serving(tmp_path, OTHERS) as place:
        created = (await place.client.post("/api/keys/create", json={"email": "ada@example.org"})).json()
        assert (created["tier"], created["limits"]["requests_per_day"]) == ("a", 5)
        free = {"Authorization": f"Bearer {created['api_key']}"}
        chat, alerts = await place.chat(free), await place.alerts(free)
        assert [answer.json()["required_tier"] for answer in (chat, alerts)] == ["b", "c"]
        capped, best = await place.key("b"), await place.key("c")
        assert [(await place.chat(capped)).status_code for _ in range(2)] == [200, 429]
        assert [(await place.chat(best)).status_code for _ in range(3)] == [200, 200, 200]
        assert (await place.alerts(best)).headers["x-ratelimit-limit"] == "400", (
            "the minute, where the day has no limit"
        )
        assert (await place.alerts(capped)).status_code == 403
        refused = await place.client.post("/api/keys/create", json={"email": "ada@example.org", "tier": "b"})
        assert (refused.json()["code"], refused.json()["allowed"]) == ("tier-not-self-service", ["a"])


def test_agents_have_the_minute_of_the_most_expensive_plan(tmp_path):
    plans = open_plans(load(tmp_path, OTHERS.replace("price_usd_month = 20", "price_usd_month = 900")))
    assert plans.agent_windows == Windows(None, 400)


@pytest.mark.parametrize(
    ("text", "message"),
    [('[stripe_prices]\nprice_x = "gold"', "stripe_prices"), ('[stripe_prices]\nprice_x = "free"', "stripe_prices"),
     ('default_plan = "pro"', "default_plan"), ("[plans.team]\nrequests_per_minute = 5", "plans.team"),
     ("[plans.pro]\nrequests_per_day = 0", "plans.pro"), ('[plans."Team A"]\nprice_usd_month = 5', "plans")],
)  # fmt: skip
def test_plans_that_do_not_fit_stop_the_start_and_name_the_setting(tmp_path, text, message):
    with pytest.raises(SettingError, match=message):
        open_plans(load(tmp_path, text))


def test_no_code_compares_the_name_of_a_plan():
    names = {"free", "pro", "enterprise"}
    allowed = {SOURCE / "accounts" / "plans.py"}
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        if path in allowed or "vendor" in path.parts or "migrations" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            compared = [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
            literals = [each for part in compared for each in ast.walk(part) if isinstance(each, ast.Constant)]
            subscript = [node.slice] if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) else []
            found += [f"{path.name}:{each.lineno}" for each in [*literals, *subscript] if each.value in names]
    assert found == [], json.dumps(found)
