"""Attacks on API keys: forged, revoked and rotated ones, and plans that nobody paid for."""

import secrets

from tests.attacks.attack import attack
from tests.attacks.target import FEED, Target

VERIFY = "/api/keys/verify"


def _bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


@attack("keys", 80)
async def forged_key_is_refused(target: Target) -> None:
    key = await target.new_key("forged@example.org")
    last = "a" if key[-1] != "a" else "b"
    forged = [key[:-1], key[:-1] + last, key + "0", key[1:], key.swapcase(), key.upper(), key[::-1], "th_live_",
              "th_live", "null",
              "undefined", "' OR 1=1 --", "%00", "*", "x" * 7_000, key.replace("th_live_", "th_test_"), f'"{key}"',
              f"{key},{key}",
              f"Bearer {key}", "th_live_" + "0" * 33, "th_live_" + secrets.token_urlsafe(30), "é" * 20, "1",
              "true"]  # fmt: skip
    forged += [key[:place] + ("x" if key[place] != "x" else "y") + key[place + 1 :] for place in range(8, len(key))]
    answers = await target.at_once(
        target.send(path, _bearer(each), process=number)
        for number, each in enumerate(forged)
        for path in (FEED, VERIFY)
    )
    for answer in answers:
        assert answer.status in {401, 429, 431, 400}, answer
        assert key.encode() not in answer.body
    for credential in ("", "Bearer", "Bearer ", f"Basic {key}", f"Token {key}", key, f"Bearer\x0b{key}", "Negotiate x"):
        answer = await target.send(FEED, {"Authorization": credential})
        assert answer.status in {400, 401, 0}, answer
    for elsewhere in (f"{FEED}&api_key={key}", f"{FEED}&key={key}", f"{FEED}&access_token={key}"):
        assert (await target.send(elsewhere)).status in {400, 401}
    for header in (
        {"X-Api-Key": key},
        {"Api-Key": key},
        {"Cookie": f"api_key={key}"},
        {"Proxy-Authorization": f"Bearer {key}"},
    ):
        assert (await target.send(FEED, header)).status == 401


@attack("keys", 12)
async def revoked_key_opens_nothing_on_any_process(target: Target) -> None:
    key = await target.new_key("revoked@example.org")
    for process in range(2):
        assert (await target.send(VERIFY, _bearer(key), process=process)).status == 200
    assert (await target.send("/api/keys/revoke", _bearer(key), method="POST")).status == 200
    await target.refuses(401, FEED, _bearer(key))
    for path, method in ((FEED, "GET"), (VERIFY, "GET"), ("/api/keys/rotate", "POST"), ("/api/keys/revoke", "POST")):
        for process in range(2):
            assert (await target.send(path, _bearer(key), method=method, process=process)).status == 401


@attack("keys", 6)
async def rotated_key_opens_nothing_and_its_successor_has_its_plan(target: Target) -> None:
    key = await target.new_key("rotated@example.org")
    rotated = await target.send("/api/keys/rotate", _bearer(key), method="POST")
    assert rotated.status == 200, rotated
    assert rotated.json["tier"] == "free"
    await target.refuses(401, FEED, _bearer(key))
    for process in range(2):
        assert (await target.send(VERIFY, _bearer(rotated.json["api_key"]), process=process)).status == 200


@attack("keys", 30)
async def key_is_created_only_on_the_free_plan(target: Target) -> None:
    tiers = [
        "pro",
        "enterprise",
        "Enterprise",
        "admin",
        "",
        "free ",
        " free",
        "FREE",
        None,
        1,
        True,
        ["pro"],
        {"name": "pro"},
        "free\x00",
    ]
    for tier in tiers:
        created = await target.post("/api/keys/create", {"email": "tiers@example.org", "tier": tier})
        assert created.status == 400, (tier, created)
    more = [{"plan": "pro"}, {"limits": {"requests_per_day": 9}}, {"per_minute": 9}, {"entitlements": ["chat"]},
            {"key_id": "x"},
            {"api_key": "th_live_x"}, {"is_admin": True}, {"label": 1}, {"label": "x" * 101},
            {"label": "\x00"}]  # fmt: skip
    for members in more:
        created = await target.post("/api/keys/create", {"email": "more@example.org"} | members)
        assert created.status == 400, (members, created)
    emails = ["", "a", "a@b", "@example.org", "a b@example.org", "a@example.org\nBcc: b@example.org",
              "a@exa mple.org", None, 7,
              "x" * 65 + "@example.org", "a@" + "x" * 300 + ".org", ["a@example.org"], "a@example.org\x00", "a@-.",
              "a@example..org"]  # fmt: skip
    for email in emails:
        assert (await target.post("/api/keys/create", {"email": email})).status == 400, email


@attack("keys", 8)
async def free_key_opens_nothing_that_a_plan_must_include(target: Target) -> None:
    key = await target.new_key("plans@example.org")
    calls = [
        ("/defense/chat", {"prompt": "How many battles?"}),
        ("/defense/alerts", {}),
        ("/defense/alerts", {"name": "x"}),
    ]
    for path, members in calls:
        for process in range(2):
            answer = await target.post(path, members, _bearer(key), process=process)
            assert answer.status in {400, 403, 404, 405}, answer
    for path in ("/defense/analysis/summary", "/defense/alerts"):
        assert (await target.send(path, _bearer(key))).status in {403, 404, 405}


@attack("keys", 40)
async def free_key_is_answered_no_oftener_than_its_plan_says(target: Target) -> None:
    """Ten calls a minute, whatever address they come from and whichever process takes them."""
    key = await target.new_key("minute@example.org")
    answers = await target.at_once(target.send(FEED, _bearer(key), process=number) for number in range(40))
    assert sum(answer.status == 200 for answer in answers) == 10
    for answer in answers:
        assert answer.status in {200, 429}
        assert answer.status == 200 or int(answer.headers["retry-after"]) > 0
