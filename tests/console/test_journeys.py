"""What a person does in the pages, in a real browser with nothing but this server to reach."""

import re

import pytest


def test_visitor_gets_a_key_and_calls_with_it(visit, server):
    visitor = visit()
    visitor.open("/keys")
    page = visitor.page
    page.get_by_label("Email", exact=True).fill("ada@example.org")
    page.get_by_role("button", name="Create a free key").click()
    shown = page.locator("#shown-key .key")
    shown.wait_for()
    made = shown.inner_text()
    assert re.fullmatch(r"th_live_[0-9A-Za-z]+", made)
    command = page.locator("#shown-key pre").inner_text()
    assert made in command
    with server.client(made) as client:
        assert client.get("/feeds/events?limit=5").status_code == 200
    page.get_by_role("button", name="Refresh").click()
    page.get_by_text("1 of 100 used").wait_for()
    visitor.check()
    assert made not in page.url
    visitor.open("/keys")
    assert made not in page.content()


def test_key_is_copied_with_one_click(visit):
    visitor = visit()
    visitor.page.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=visitor.root)
    visitor.open("/keys")
    page = visitor.page
    page.get_by_label("Email", exact=True).fill("eve@example.org")
    page.get_by_role("button", name="Create a free key").click()
    page.get_by_role("button", name="Copy the key").click()
    page.get_by_role("button", name="Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == page.locator("#shown-key .key").inner_text()


def test_invalid_email_shows_the_servers_error(visit):
    visitor = visit()
    visitor.open("/keys")
    visitor.page.get_by_label("Email", exact=True).fill("ada@example")
    visitor.page.get_by_role("button", name="Create a free key").click()
    assert "email" in visitor.page.get_by_role("alert").inner_text().lower()
    assert visitor.violations() == []


def test_reading_uses_no_plan_no_allowance_and_renews_its_visit_once_by_itself(visit, server):
    made = server.new_key("frugal@example.org")["api_key"]
    visitor = visit()
    visitor.key(made)
    page = visitor.page
    remaining: list[int] = []
    page.on("response", lambda answer: remaining.append(int(answer.headers.get("x-ratelimit-remaining", 0))))
    visitor.open("/board")
    page.locator("#board a.title").first.wait_for()
    visitor.check_load()
    page.get_by_role("link", name="Brief", exact=True).click()
    page.get_by_role("heading", name="Capability gaps").wait_for()
    assert server.used(made)["day"]["used"] == 0
    assert max(remaining) > 1_900
    page.evaluate("sessionStorage.setItem('tollhouse-visit', `1.forged ${Date.now() + 1e6}`)")
    visitor.open("/mattresses")
    page.locator("#goods .shop-link").first.wait_for()
    assert "1.forged" not in page.evaluate("sessionStorage.getItem('tollhouse-visit')")


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("path", ["/", "/wallet", "/guide/agents-client"])
def test_copy_button_never_covers_the_command(visit, path, width):
    visitor = visit(width=width)
    visitor.open(path)
    snippets = visitor.page.locator(".snippet:visible")
    assert snippets.count() > 0
    for snippet in snippets.all():
        text, button = snippet.locator("pre").bounding_box(), snippet.get_by_role("button").bounding_box()
        is_beside = text["x"] + text["width"] <= button["x"]
        assert is_beside or button["y"] + button["height"] <= text["y"] + 1


def test_theme_is_chosen_and_kept(visit):
    visitor = visit(scheme="light")
    visitor.open("/studio-catalogue")
    page = visitor.page
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    for _ in range(2):
        page.locator("#theme").click()
    assert page.locator("#theme").get_attribute("aria-label") == "Theme: dark"
    assert page.evaluate(ground) != light
    page.reload()
    assert page.evaluate(ground) != light
    visitor.check()


def test_operator_logs_in_with_the_token_and_out_again(visit, server):
    visitor = visit()
    visitor.open("/operator")
    page = visitor.page
    assert not page.get_by_role("heading", name="Revenue").is_visible()
    page.get_by_label("Operator token").fill((server.data_dir / "operator-token").read_text())
    page.get_by_role("button", name="Log in").click()
    page.get_by_role("button", name="Verify now").click()
    page.get_by_text("✓ balanced").wait_for()
    visitor.check()
    assert page.evaluate("document.cookie + JSON.stringify(sessionStorage)") == "{}"
    visitor.open("/operator")
    page.get_by_role("button", name="Log out").click()
    page.get_by_label("Operator token").wait_for()
    assert not page.get_by_role("heading", name="Revenue").is_visible()
    visitor.check_load()


def test_wrong_operator_token_is_refused_in_words(visit):
    visitor = visit()
    visitor.open("/operator")
    visitor.page.get_by_label("Operator token").fill("a-token-that-was-guessed")
    visitor.page.get_by_role("button", name="Log in").click()
    assert "operator_token" in visitor.page.get_by_role("alert").inner_text()
    assert visitor.violations() == []
