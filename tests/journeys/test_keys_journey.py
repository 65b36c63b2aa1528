"""A key's life: given, refused, replaced, given back."""

import httpx2
import pytest


def create(server, headers=None, **body: object):
    return httpx2.post(f"{server.base}/api/keys/create", json=body, headers=headers)


def reads(server, key):
    return httpx2.get(f"{server.base}/feeds/events?limit=1", headers={"Authorization": f"Bearer {key}"})


def code_of(answer, status):
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    return answer.json()["code"]


def test_key_opens_the_feed_and_says_what_it_is(server):
    created = server.new_key("Ada@Example.org", label="journal", tier="free")
    assert set(created) == {"api_key", "key_id", "tier", "label", "created_at", "limits"}
    assert created["limits"] == {"requests_per_day": 100, "requests_per_minute": 10}
    answer = httpx2.get(f"{server.base}/api/keys/verify", headers={"Authorization": f"Bearer {created['api_key']}"})
    status = answer.json()
    assert status["valid"] is True
    assert (status["key_id"], status["tier"], status["label"]) == (created["key_id"], "free", "journal")
    assert created["api_key"] not in answer.text
    for window, limit in (("day", 100), ("minute", 10)):
        use = status["usage"][window]
        assert (use["limit"], use["used"], use["remaining"]) == (limit, 0, limit)
        assert use["resets_at"].endswith("Z")


def test_new_key_is_never_cached(server):
    assert create(server, email="ada@example.org").headers["cache-control"] == "no-store"


def test_call_without_a_key_is_told_how_to_get_one(server):
    answer = httpx2.get(f"{server.base}/feeds/events")
    assert code_of(answer, 401) == "missing-credentials"
    assert answer.headers["www-authenticate"] == "Bearer"
    assert "/api/keys/create" in answer.json()["detail"]


@pytest.mark.parametrize(
    "authorization",
    ["Bearer", "Basic YTpi", "th_live_x", "Bearer th_live_x", "Bearer a b", "Bearer \u00e9\u00ff",
     "Bearer th_live_000000000000000000000000000000000"],
)  # fmt: skip
def test_what_is_no_key_is_refused(server, authorization):
    answer = httpx2.get(f"{server.base}/feeds/events", headers={"Authorization": authorization.encode("latin-1")})
    assert code_of(answer, 401) in {"invalid-key", "missing-credentials"}
    assert answer.headers["www-authenticate"].startswith("Bearer")


def test_mistyped_key_is_refused(server):
    key = server.new_key()["api_key"]
    assert reads(server, key).status_code == 200
    for wrong in (key[:-1] + ("0" if key[-1] != "0" else "1"), key + "0", key.swapcase(), key[:-1]):
        assert code_of(reads(server, wrong), 401) == "invalid-key"


def test_scheme_may_be_in_any_case(server):
    key = server.new_key()["api_key"]
    assert httpx2.get(f"{server.base}/api/keys/verify", headers={"Authorization": f"bearer {key}"}).status_code == 200


def test_rotated_key_keeps_id_and_usage_and_the_old_text_is_dead(server):
    created = server.new_key(label="leaked")
    for _ in range(3):
        assert reads(server, created["api_key"]).status_code == 200
    headers = {"Authorization": f"Bearer {created['api_key']}"}
    rotated = httpx2.post(f"{server.base}/api/keys/rotate", headers=headers).json()
    assert rotated["api_key"] != created["api_key"]
    assert {**rotated, "api_key": ""} == {**created, "api_key": ""}
    assert code_of(reads(server, created["api_key"]), 401) == "invalid-key"
    assert server.used(rotated["api_key"])["day"]["used"] == 3
    assert reads(server, rotated["api_key"]).headers["x-ratelimit-remaining"] == "96"


def test_revoked_key_is_dead(server):
    created = server.new_key()
    headers = {"Authorization": f"Bearer {created['api_key']}"}
    answer = httpx2.post(f"{server.base}/api/keys/revoke", headers=headers)
    assert answer.json() == {"revoked": True, "key_id": created["key_id"]}
    assert code_of(reads(server, created["api_key"]), 401) == "invalid-key"
    assert code_of(httpx2.post(f"{server.base}/api/keys/rotate", headers=headers), 401) == "invalid-key"
    assert code_of(httpx2.post(f"{server.base}/api/keys/revoke", headers=headers), 401) == "invalid-key"


@pytest.mark.parametrize("tier", ["pro", "enterprise"])
def test_paid_tier_is_not_given_out(server, tier):
    answer = create(server, email="ada@example.org", tier=tier)
    assert code_of(answer, 400) == "tier-not-self-service"
    assert "/api/stripe/checkout" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("body", "parameter"),
    [
        ({}, "email"), ({"email": ""}, "email"), ({"email": "nobody"}, "email"), ({"email": 7}, "email"),
        ({"email": None}, "email"), ({"email": "a b@example.org"}, "email"), ({"email": "a@example"}, "email"),
        ({"email": "a@example.org\nbcc: x"}, "email"), ({"email": f"{'a' * 250}@example.org"}, "email"),
        ({"email": "a@example.org", "tier": "gold"}, "tier"), ({"email": "a@example.org", "tier": None}, "tier"),
        ({"email": "a@example.org", "label": "x" * 101}, "label"), ({"email": "a@example.org", "label": 5}, "label"),
        ({"email": "a@example.org", "lable": "x"}, "lable"),
    ],
)  # fmt: skip
def test_wrong_member_is_named(server, body, parameter):
    answer = create(server, **body)
    assert code_of(answer, 400) == "invalid-body"
    assert answer.json()["parameter"] == parameter


def test_label_may_have_a_hundred_characters(server):
    label = "\u00e9" * 100
    assert server.new_key(label=label)["label"] == label


@pytest.mark.parametrize("content_type", ["", "text/plain", "application/x-www-form-urlencoded", "application/jsonx"])
def test_body_must_be_json_by_name(server, content_type):
    answer = httpx2.post(
        f"{server.base}/api/keys/create", content=b'{"email":"a@example.org"}', headers={"Content-Type": content_type}
    )
    assert code_of(answer, 415) == "unsupported-media-type"


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b'"x"', b"\xff\xfe", b"[" * 50_000, b'{"email":"\xff"}'])
def test_body_must_be_a_json_object(server, body):
    answer = httpx2.post(f"{server.base}/api/keys/create", content=body, headers={"Content-Type": "application/json"})
    assert code_of(answer, 400) == "invalid-body"


def test_one_email_gets_twenty_keys_in_whatever_case(start_server):
    server = start_server()
    keys = [
        server.new_key(email) for email in ("Eve@example.org", "eve@example.org", "EVE@EXAMPLE.ORG") for _ in "xxxxxx"
    ]
    keys += [server.new_key("eve@example.org") for _ in range(20 - len(keys))]
    assert code_of(create(server, email="eve@Example.org"), 429) == "too-many-keys"
    headers = {"Authorization": f"Bearer {keys[0]['api_key']}"}
    assert httpx2.post(f"{server.base}/api/keys/revoke", headers=headers).status_code == 200
    server.new_key("eve@example.org")
    assert code_of(create(server, email="eve@example.org"), 429) == "too-many-keys"
    server.new_key("adam@example.org")
    server.stop()


def test_one_address_gets_so_many_keys_an_hour_and_forging_its_header_wins_none(start_server):
    server = start_server(keys_per_address_per_hour=3)
    for number in range(3):
        assert create(server, email=f"a{number}@example.org").status_code == 200
    refused = create(server, email="b@example.org")
    assert code_of(refused, 429) == "too-many-keys"
    assert 3_500 < int(refused.headers["retry-after"]) <= 3_600
    assert refused.json()["retry_after_seconds"] == int(refused.headers["retry-after"])
    forged = {"X-Forwarded-For": "198.51.100.7"}
    assert code_of(create(server, forged, email="c@example.org"), 429) == "too-many-keys"
    server.stop()


def test_trusted_proxy_speaks_for_its_callers(start_server):
    server = start_server(keys_per_address_per_hour=2, trusted_proxies="127.0.0.0/8, ::1")

    def statuses(chain) -> list[int]:
        return [create(server, {"X-Forwarded-For": chain}, email="a@example.org").status_code for _ in range(3)]

    assert statuses("198.51.100.7") == [200, 200, 429]
    assert statuses("198.51.100.8") == [200, 200, 429]
    # Whatever a caller wrote before the proxy added the address it saw is not believed.
    assert statuses("203.0.113.1, 198.51.100.8") == [429, 429, 429]
    assert statuses("2001:db8:0:1::1") == [200, 200, 429]
    assert statuses("2001:db8:0:1:ffff::2") == [429, 429, 429]
    server.stop()


def test_refused_key_requests_use_nothing_of_the_addresss_hour(start_server):
    server = start_server(keys_per_address_per_hour=1)
    assert code_of(create(server, email="nobody"), 400) == "invalid-body"
    assert code_of(create(server, email="a@example.org", tier="pro"), 400) == "tier-not-self-service"
    assert create(server, email="a@example.org").status_code == 200
    server.stop()
