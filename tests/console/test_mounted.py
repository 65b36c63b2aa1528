"""The pages of a server that another application has mounted below a path."""

import subprocess
import sys
from types import SimpleNamespace

import httpx2
import pytest

from tests.journeys.server import environment, free_port, poll

PARENT = """
from starlette.applications import Starlette
from starlette.routing import Mount
from tollhouse import create_app
app = Starlette(routes=[Mount("/paid", create_app())])
"""


@pytest.fixture(scope="module")
def root(tables_home):
    """The address of the mounted server, with a table of its own."""
    (tables_home / "parent.py").write_text(PARENT)
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", "parent:app", "--port", str(port), "--log-level", "error"]
    process = subprocess.Popen(command, cwd=tables_home, env=environment(recorded="true", background_work="false"))
    try:
        poll(lambda: httpx2.get(f"http://127.0.0.1:{port}/paid/books/health", timeout=30).status_code == 200, 60)
        poll(lambda: httpx2.get(f"http://127.0.0.1:{port}/paid/books/health").json()["status"] == "ok", 60)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(20)


@pytest.fixture(scope="module")
def server(root):
    """What tabs are opened on."""
    return SimpleNamespace(root=f"{root}/paid")


def test_reader_goes_from_page_to_page_below_the_mount(visit, root):
    visitor = visit()
    page = visitor.page
    failed: list[str] = []
    page.on("response", lambda one: failed.append(one.url) if one.status >= 400 else None)
    page.goto(f"{root}/paid/mattresses?q=firm")
    visitor.settle()
    assert page.locator("#goods .product-card").count() > 0
    page.get_by_role("link", name="Get a key").click()
    page.wait_for_url(f"{root}/paid/keys")
    page.goto(f"{root}/paid/tables/books")
    visitor.settle()
    assert page.locator("#found").inner_text() == "300 rows"
    page.locator("#rows a").nth(1).click()
    page.wait_for_url(f"{root}/paid/tables/books/row?**")
    visitor.settle()
    page.goto(f"{root}/paid/guide")
    visitor.settle()
    assert failed == []
