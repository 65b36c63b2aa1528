"""Traces: what a collector receives of calls, payments, models and nodes, and what it does not."""

import asyncio
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest

from tests.fakes.collector import Collector, Span, collecting
from tests.fakes.model import fake_model
from tests.http.conftest import asgi_client
from tollhouse import app
from tollhouse.config.settings import Settings
from tollhouse.download import UpstreamFailure, fetch
from tollhouse.questions.language_model import Model
from tollhouse.tracing import open_tracing

TRACE, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@asynccontextmanager
async def traced(data_dir, **options: Any):
    """A client of a server that sends traces; after the block, every span was sent."""
    with collecting() as collector:
        settings = Settings(
            data_dir=str(data_dir), recorded=True, background_work=False, otlp_url=collector.url, **options
        )
        async with app.serving(settings) as server, asgi_client(server.handle) as client:
            yield client, collector


def named(collector: Collector, name: str) -> Span:
    (span,) = [one for one in collector.spans if one.name == name]
    return span


async def test_call_is_a_span_within_the_callers_trace_with_its_handler_as_a_child(data_dir):
    async with traced(data_dir, service="mattress", free_per_ip_per_day=2) as (client, collector):
        path = "/api/products?limit=1&q=secret-of-the-caller"
        first = await client.get(path, headers={"traceparent": f"00-{TRACE}-{CALLER}-01", "x-request-id": "mine"})
        assert first.status_code == 200
        await client.get(path)
        assert (await client.get("/api/products?limit=0")).status_code == 402
        await client.get("/nowhere/secret-of-the-caller", headers={"traceparent": "00-nonsense-01"})
        tool = {"name": "listProducts", "arguments": {"limit": 1}}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": tool}
        assert (await client.post("/mcp", json=message)).status_code == 200
    assert collector.service_names == {"tollhouse"}
    first_span, second, refused, of_tool = (one for one in collector.spans if one.name == "GET /api/products")
    assert (first_span.trace_id, first_span.parent_id, first_span.kind) == (TRACE, CALLER, 2)
    assert first_span.attributes == {
        "http.request.method": "GET", "http.route": "/api/products", "http.response.status_code": 200,
        "tollhouse.request_id": "mine", "tollhouse.service": "mattress", "tollhouse.operation": "listProducts",
        "tollhouse.caller": "address", "tollhouse.payment": "allowance",
    }  # fmt: skip
    assert second.trace_id != TRACE
    assert second.parent_id == ""
    assert (refused.attributes["error.type"], refused.has_failed) == ("payment-required", False)
    handlers = [one for one in collector.spans if one.name == "handler" and one.trace_id == TRACE]
    assert [one.parent_id for one in handlers] == [first_span.span_id]
    unrouted = named(collector, "GET")
    assert unrouted.attributes["error.type"] == "not-found"
    mcp = named(collector, "POST /mcp")
    assert (of_tool.trace_id, of_tool.attributes["tollhouse.operation"]) == (mcp.trace_id, "listProducts")
    assert mcp.attributes["tollhouse.operation"] == "mcp"
    assert "secret-of-the-caller" not in str(collector.spans)


async def test_server_without_a_collector_sends_no_trace(data_dir):
    settings = Settings(data_dir=str(data_dir), service="studio", background_work=False)
    with collecting() as collector:
        async with app.serving(settings) as server, asgi_client(server.handle) as client:
            assert (await client.get("/api/catalogue")).status_code == 200
    assert collector.spans == []


async def test_calls_of_a_model_and_of_a_provider_are_spans_that_name_neither_path_nor_text():
    with collecting() as collector, fake_model() as server:
        url = f"http://127.0.0.1:{server.port}"
        async with open_tracing(collector.url, "1"), httpx2.AsyncClient() as client:
            model = Model(Settings(llm_base_url=f"{url}/v1", llm_api_key="sk-secret"))
            deadline = asyncio.get_running_loop().time() + 10
            prompt = [{"role": "user", "content": "secret question"}]
            assert [piece async for piece in model.turn("fast", prompt, {}, 100, deadline)]
            await model._client.close()
            with pytest.raises(UpstreamFailure):
                await fetch(client, "http://127.0.0.1:1/secret?key=1", cap_bytes=10, deadline_seconds=5)
    model_span, provider = named(collector, "language model"), named(collector, "provider")
    assert model_span.attributes == {"gen_ai.request.model": "fast"}
    assert provider.has_failed
    assert provider.attributes == {"server.address": "127.0.0.1", "error.type": "ConnectError"}
    assert "secret" not in str(collector.spans)
