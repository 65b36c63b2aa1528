"""The dashboard and the alert rules in deploy/ ask for metrics that a server shows."""

import json
import re
from pathlib import Path

import yaml

from tests.http.conftest import asgi_client
from tollhouse import app
from tollhouse.config.settings import Settings

DEPLOY = Path(__file__).parents[2] / "deploy"
TOKEN = "the-operators-own-token"
OPERATOR = {"Authorization": f"Bearer {TOKEN}"}
_NAME = re.compile(r"\btollhouse_\w+")
_SAMPLE = re.compile(r"^(tollhouse_\w+)(?:\{(.*)\})? ", re.MULTILINE)


def _queries() -> list[str]:
    rules = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yaml").read_text())["groups"][0]["rules"]
    panels = json.loads((DEPLOY / "grafana" / "tollhouse.json").read_text())["panels"]
    targets = [target["expr"] for panel in panels for target in panel.get("targets", ())]
    assert len(rules) > 10
    assert len(targets) > 20
    return [rule["expr"] for rule in rules] + targets


async def test_every_metric_of_the_dashboard_and_the_rules_is_exposed_with_its_labels(data_dir):
    settings = Settings(data_dir=str(data_dir), service="studio", operator_token=TOKEN, background_work=False)
    async with app.serving(settings) as server, asgi_client(server.handle) as client:
        await client.get("/api/catalogue")
        await client.get("/nowhere")
        page = (await client.get("/keys")).text
        for file in re.findall(r'(?:href|src)="(/console/[^"]*)"', page):
            assert (await client.get(file)).status_code == 200
        await client.get("/operator/api/audit", headers=OPERATOR)
        metrics = (await client.get("/metrics", headers=OPERATOR)).text
    declared = set(re.findall(r"^# TYPE (tollhouse_\w+)", metrics, re.MULTILINE))
    samples = dict(_SAMPLE.findall(metrics))
    known = declared | set(samples) | {f"{name}_{end}" for name in declared for end in ("bucket", "count", "sum")}
    for query in _queries():
        names = set(_NAME.findall(query))
        assert names or "up{" in query, query
        assert names <= known, (query, names - known)
    for name, labels in (
        ("tollhouse_calls_total", {"service", "caller", "plan", "payment"}),
        ("tollhouse_refusals_total", {"service", "code"}),
        ("tollhouse_request_duration_seconds_bucket", {"service", "operation", "status", "le"}),
    ):
        assert set(re.findall(r'(\w+)="', samples[name])) == labels
    assert 'tollhouse_refusals_total{code="not-found",service=""} 1.0' in metrics
    assert 'tollhouse_calls_total{caller="address",payment="",plan="",service="studio"} 1.0' in metrics
    assert "tollhouse_ledger_balanced 1.0" in metrics
    assert "tollhouse_storage_up 1.0" in metrics
    # One series for all pages and files, whatever their address.
    pages = re.findall(r'seconds_count\{operation="(page[^"]*)",service="front",status="200"\}', metrics)
    assert pages == ["page"]
