"""The same attacks through MCP: a tool's call is admitted and paid like the operation it stands for."""

from typing import Any

from tests.attacks.attack import attack
from tests.attacks.target import PAGE_MICROS, Answer, Json, Target, members
from tests.payments.x402.signed_payments import encoded

MCP = "/mattress/mcp"


async def _call(target: Target, payment: Any = None, tool: str = "listProducts", **options: Any) -> Answer:
    meta = {} if payment is None else {"_meta": {"x402/payment": payment}}
    params: Json = {"name": tool, "arguments": {"limit": 1} if tool == "listProducts" else {}, **meta}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return await target.post(MCP, message, {"Accept": "application/json, text/event-stream"}, **options)


def _is_refused(answer: Answer) -> bool:
    return answer.status in {400, 401, 429} or "error" in answer.json or answer.json["result"].get("isError") is True


@attack("MCP", 16)
async def tool_call_with_a_false_payment_is_refused(target: Target) -> None:
    payer = await target.payer()
    good, earned = members(payer), await target.earned()
    told = good["payload"]["authorization"]
    false: list[Any] = [
        None, {}, [], "x", 1, encoded(good), {"x402Version": 1}, {**good, "x402Version": 7}, {**good,
        "network": "base-sepolia"},
        {**good, "payload": {**good["payload"], "signature": "0x" + "11" * 65}},
        {**good, "payload": {**good["payload"], "authorization": {**told, "value": "1"}}},
        {**good, "payload": {**good["payload"], "authorization": {**told, "nonce": "0x" + "ab" * 32}}},
        {**good, "payload": None}, {**good, "scheme": "upto"}, {**good, "filling": "x" * 20_000}, True,
    ]  # fmt: skip
    answers = await target.at_once(_call(target, payment, process=number) for number, payment in enumerate(false))
    for payment, answer in zip(false, answers, strict=True):
        assert _is_refused(answer), (payment, answer)
    assert await target.earned() == earned


@attack("MCP", 10)
async def payment_used_over_mcp_buys_nothing_over_http_and_the_reverse(target: Target) -> None:
    payer = await target.payer()
    for begins_with_mcp in (True, False):
        sent, earned = members(payer), await target.earned()
        header = {"X-Payment": encoded(sent)}
        if begins_with_mcp:
            bought = await _call(target, sent)
            assert not _is_refused(bought), bought
        else:
            assert (await target.send(headers=header)).status == 200
        await target.refuses(402, headers=header)
        for process in range(4):
            assert _is_refused(await _call(target, sent, process=process))
        assert await target.earned() == earned + PAGE_MICROS


@attack("MCP", 20)
async def payment_raced_over_mcp_and_http_is_settled_once(target: Target) -> None:
    payer = await target.payer()
    sent, earned = members(payer), await target.earned()
    header = {"X-Payment": encoded(sent)}
    attempts = [
        _call(target, sent, process=number) if number % 2 else target.send(headers=header, process=number // 2)
        for number in range(20)
    ]
    answers = await target.at_once(attempts)
    assert any(answer.status == 200 and "error" not in answer.json for answer in answers)
    assert await target.earned() == earned + PAGE_MICROS


@attack("MCP", 14)
async def operation_that_is_no_tool_cannot_be_called(target: Target) -> None:
    tools = ["createKey", "revokeKey", "rotateKey", "verifyKey", "registerAgent", "depositCredit", "mcp", "getHealth",
             "checkout",
             "stripeWebhook", "__class__", "", "../api/keys/create", "metrics"]  # fmt: skip
    for tool in tools:
        assert _is_refused(await _call(target, tool=tool)), tool


@attack("MCP", 30)
async def malformed_message_is_an_error(target: Target) -> None:
    good: Json = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "listProducts", "arguments": {}},
    }
    changes: list[Any] = [
        {"jsonrpc": "1.0"}, {"jsonrpc": None}, {"id": {}}, {"id": [1]}, {"id": 1.5}, {"method": None},
        {"method": "tools/none"},
        {"method": ""}, {"params": None}, {"params": []}, {"params": {"name": 1}}, {"params": {"name": "listProducts",
        "arguments": []}},
        {"params": {"name": "listProducts", "arguments": {"limit": "x"}}}, {"params": {"name": "listProducts",
        "arguments": {"x": 1}}},
        {"params": {"name": "listProducts", "arguments": {"limit": 10**40}}}, {"params": {"name": "listProducts",
        "_meta": []}},
        {"params": {"name": "listProducts", "arguments": {"limit": -1}}}, {"params": {"name": "listProducts",
        "arguments": None}},
    ]  # fmt: skip
    for change in changes:
        answer = await target.post(MCP, good | change)
        assert answer.status in {400, 401} or _is_refused(answer), (change, answer)
    for batch in ([], [good], [good] * 50, [[good]]):
        answer = await target.post(MCP, batch)
        assert answer.status == 400 or _is_refused(answer), answer
    for version in ("1999-01-01", "x", "2026-13-40", "0"):
        answer = await target.post(MCP, good, {"MCP-Protocol-Version": version})
        assert answer.status == 400, answer
    for method in ("GET", "DELETE", "PUT", "PATCH"):
        assert (await target.send(MCP, method=method)).status in {404, 405}
