"""The status page over real HTTP: a source that fails and recovers, a restart, and errors as pages for browsers."""

import httpx2
import pytest

from tests.fakes.gdelt import fake_gdelt, recent_slots
from tests.journeys.server import Server, poll

BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}


@pytest.fixture
def live(start_server, tmp_path):
    """A function that starts a server which follows a fake GDELT, and the provider; always in the same folder."""
    with fake_gdelt() as gdelt:

        def start() -> Server:
            settings = {"recorded": "false", "gdelt_url": gdelt.url, "gdelt_poll_seconds": 0.2}
            return start_server(home=tmp_path / "live", is_recorded=False, **settings)

        yield gdelt, start


def status(server):
    answer = httpx2.get(f"{server.root}/status.json")
    assert answer.status_code == 200
    assert not [name for name in answer.headers if name.lower().startswith(("x-ratelimit", "ratelimit"))]
    return answer.json()


def source(server):
    [defense] = [one for one in status(server)["services"] if one["name"] == "defense"]
    return next((one for one in defense["components"] if one["title"] == "GDELT"), None)


def incidents(server):
    return [one for one in status(server)["incidents"] if one["title"] == "GDELT"]


def test_source_that_fails_and_recovers_is_an_incident_that_a_restart_keeps(live):
    gdelt, start = live
    slots = recent_slots(2)
    gdelt.publish(slots[0], 0)
    server = start()
    poll(lambda: (found := source(server)) and found["state"] == "ok", 30)
    assert incidents(server) == []

    gdelt.publish(slots[1], 1, md5="0" * 32)
    poll(lambda: source(server)["state"] == "failing")
    [begun] = poll(lambda: incidents(server), 30)
    assert begun["ended_at"] is None
    assert begun["kind"] == "failing"
    assert status(server)["state"] == "failing"
    # The error has the provider's address; the status page does not.
    text = httpx2.get(f"{server.root}/status.json").text
    assert "127.0.0.1" not in text
    assert str(httpx2.URL(gdelt.url).port) not in text
    assert "MD5" not in text

    server.stop()
    again = start()
    [kept] = incidents(again)
    assert (kept["id"], kept["began_at"]) == (begun["id"], begun["began_at"])
    gdelt.publish(slots[1], 1)
    [ended] = poll(lambda: [one for one in incidents(again) if one["ended_at"]], 60)
    assert ended["id"] == begun["id"]
    assert source(again)["state"] == "ok"
    assert ended["duration_seconds"] >= 0
    again.stop()


@pytest.mark.parametrize(
    ("path", "code", "says"),
    [
        ("/value-chian", 404, "/value-chain"),
        ("/defense/feeds/events", 401, "/keys"),
        ("/mattress/api/products?limit=many", 400, "limit"),
        ("/api/keys/create", 405, "POST"),
    ],
)
def test_error_is_a_page_for_a_browser_and_problem_json_for_a_program(server, path, code, says):
    page = httpx2.get(server.root + path, headers=BROWSER)
    assert page.status_code == code
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert page.headers["cache-control"] == "no-store"
    assert says in page.text
    assert page.headers["x-request-id"] in page.text
    for accept in ("*/*", "application/json", "application/json, text/html;q=0.5", "text/html;q=0", None):
        headers = {} if accept is None else {"Accept": accept}
        answer = httpx2.get(server.root + path, headers=headers)
        assert answer.headers["content-type"] == "application/problem+json", accept
        assert (answer.status_code, answer.json()["status"]) == (code, code)
        kept = ("allow", "www-authenticate")
        assert [page.headers.get(name) for name in kept] == [answer.headers.get(name) for name in kept]
    # A call that is not the opening of a page stays a problem.
    assert httpx2.post(server.root + path, headers=BROWSER).headers["content-type"] == "application/problem+json"


def test_path_in_an_error_page_is_text(server):
    page = httpx2.get(f"{server.root}/<script>alert(1)</script>", headers=BROWSER)
    assert page.status_code == 404
    assert "<script>alert" not in page.text
    assert "&lt;script&gt;" in page.text


def test_crawlers_find_the_pages(server):
    robots = httpx2.get(f"{server.root}/robots.txt").text
    assert "Disallow: /operator" in robots
    sitemap = robots.splitlines()[-1].removeprefix("Sitemap: ")
    listed = httpx2.get(sitemap)
    assert listed.headers["content-type"] == "application/xml"
    urls = [part.partition("</loc>")[0] for part in listed.text.split("<loc>")[1:]]
    assert f"{server.root}/value-chain" in urls
    assert not [url for url in urls if "/operator" in url]
    for url in urls:
        assert httpx2.get(url, headers=BROWSER).status_code == 200, url
