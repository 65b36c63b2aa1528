import pytest
from hypothesis import given
from hypothesis import strategies as st

from tollhouse.errors import Problem
from tollhouse.http.response import negotiate

OFFERED = ("application/json", "application/geo+json", "text/csv")


@pytest.mark.parametrize(
    ("accept", "chosen"),
    [
        ("*/*", "application/json"), ("text/csv", "text/csv"), ("TEXT/CSV", "text/csv"), ("text/*", "text/csv"),
        ("application/*", "application/json"), ("text/csv, application/json", "application/json"),
        ("text/csv;q=0.9, application/json;q=0.8", "text/csv"), ("text/html, */*;q=0.1", "application/json"),
        ("application/json;q=0, */*", "application/geo+json"),
        ("text/*;q=0.1, application/geo+json", "application/geo+json"),
        ("application/json;q=0, application/*", "application/geo+json"),
        ("*/*;q=0.5, text/csv", "text/csv"), ("text/csv; charset=utf-8", "text/csv"), ("text/csv;q=2", "text/csv"),
        (" , text/csv , ", "text/csv"), ("text/csv;q=0.001", "text/csv"),
        ("application/geo+json;level=1", "application/geo+json"),
    ],
)  # fmt: skip
def test_best_offer_is_chosen(accept, chosen):
    assert negotiate(accept, OFFERED) == chosen


@pytest.mark.parametrize(
    "accept", ["image/png", "*/*;q=0", "text/csv;q=0", "application/json;q=x", "json", "text", "/"]
)
def test_nothing_acceptable_tells_the_offer(accept):
    with pytest.raises(Problem) as raised:
        negotiate(accept, OFFERED)
    assert raised.value.code == "not-acceptable"
    assert raised.value.facts["allowed"] == list(OFFERED)


@given(st.text(max_size=100))
def test_no_header_breaks_it(accept):
    try:
        assert negotiate(accept, OFFERED) in OFFERED
    except Problem as problem:
        assert problem.status == 406  # noqa: PT017 - either outcome is right


async def test_format_goes_before_accept(client):
    answer = await client.get("/things?format=json", headers={"Accept": "image/png"})
    assert answer.status_code == 200


async def test_without_accept_the_first_offer_is_given(client):
    client.headers.pop("accept")
    assert (await client.get("/long")).headers["content-type"] == "text/plain"


async def test_accept_chooses(client):
    answer = await client.get("/long", headers={"Accept": "application/json"})
    assert answer.headers["content-type"] == "application/json"
    assert "accept" in answer.headers["vary"].lower().split(", ")
