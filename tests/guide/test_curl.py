"""Every address that the documentation asks with curl is there, and takes the parameters it is given."""

import re

import pytest

from tests.guide.documents import commands, every_block
from tests.http.conftest import asgi_client
from tollhouse import app
from tollhouse.config.settings import Settings
from tollhouse.services import SERVICES

OURS = re.compile(r"""(?:https?://)?(?:localhost|127\.0\.0\.1):8000(/[^\s'";)]*)|(?:…|\$TOLLHOUSE_URL)(/[^\s'";)]*)""")


def shown_calls() -> list[tuple[str, str]]:
    """Places and paths with their queries, without those that have placeholders."""
    calls = [
        (str(block), path.rstrip("\\"))
        for block in every_block("", "text", "sh", "bash")
        for line in commands(block.text)
        if re.search(r"\bcurl\b", line)
        for paths in OURS.findall(line)
        for path in paths
        if path
    ]
    return [(where, path) for where, path in calls if not re.search(r"[…{}$<>]|[A-Z]{3}", path)]


@pytest.fixture
async def client(data_dir):
    settings = Settings(data_dir=str(data_dir), recorded=False, background_work=False)
    async with app.serving(settings) as gate, asgi_client(gate.handle) as client:
        yield client


async def test_every_address_is_there_and_takes_its_parameters(client):
    made = await client.post("/defense/api/keys/create", json={"email": "ada@example.org"})
    headers = {"Authorization": f"Bearer {made.json()['api_key']}"}
    assert len(shown_calls()) > 10
    for where, path in shown_calls():
        # `$TOLLHOUSE_URL` is the address of a service, the defense service's on these pages.
        whole = path if path.split("?")[0].split("/")[1] in {*SERVICES, *ROOTED} else f"/defense{path}"
        known = await client.options(whole.partition("?")[0])
        assert known.status_code == 200, f"{where}: {path}"
        if "GET" in known.headers["allow"] and "?" in path and "colour=" not in path:
            answer = await client.get(whole, headers=headers if whole.startswith("/defense") else {})
            assert answer.json().get("code") != "invalid-parameter", f"{where}: {path}: {answer.text}"


# What stands at the root of a host.
ROOTED = {"llms.txt", ".well-known", "discovery", "a2a", "health", "metrics", "guide", ""}
