"""Generators of clients read every description without a warning, what they write compiles, and it calls the server."""

import json
import re
import subprocess
import sys

import pytest

from tests.generators.conftest import DOCUMENTS, SERVICES
from tests.http.test_openapi import references, target

pytestmark = pytest.mark.timeout(400)

# openapi-python-client has no model for these, and leaves out the response.
OTHER_MEDIA = re.compile(
    r"Unsupported content_type application/(yaml|x-ndjson|xml|graphml\+xml)|content_type (image|text)/"
)
PYTHON = """
import importlib, sys
url, *names = sys.argv[1:]
for name in names:
    ogc = importlib.import_module(f"ogc_{name}")
    api = ogc.AboutApi(ogc.ApiClient(ogc.Configuration(host=f"{url}/{name}")))
    first = api.get_health()
    client = importlib.import_module(f"opc_{name}").Client(base_url=f"{url}/{name}")
    second = importlib.import_module(f"opc_{name}.api.about.get_health").sync(client=client)
    print(type(first).__module__.partition(".")[0], type(second).__module__.partition(".")[0])
"""


def test_every_reference_of_every_document_leads_somewhere(clients):
    for name in DOCUMENTS:
        document = json.loads((clients.folder / f"{name}.json").read_text("utf-8"))
        for reference in set(references(document)):
            assert target(document, reference), f"{name}: {reference}"


def test_linter_has_nothing_to_say(clients):
    assert clients.printed["spectral"].startswith("No results with a severity of 'warn' or higher")


@pytest.mark.parametrize("generator", ["openapi-typescript", "orval", "openapi-generator", "tsc", "python"])
def test_generator_succeeds_and_its_output_compiles(clients, generator):
    printed = clients.printed[generator]
    assert "exit status" not in printed, printed[-3_000:]
    assert not re.search(r"\berror\b", printed, re.IGNORECASE), printed[-3_000:]


def test_openapi_python_client_leaves_nothing_out_but_other_media_types(clients):
    printed = clients.printed["openapi-python-client"]
    assert "exit status" not in printed, printed[-3_000:]
    assert [line for line in printed.splitlines() if ": " in line and not OTHER_MEDIA.search(line)
            and line.partition(":")[0] in DOCUMENTS] == []  # fmt: skip


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_generator_wrote_a_client(clients, name):
    written = [f"{name}.d.ts", f"{name}.orval.ts", f"python/opc_{name}/client.py", f"python/ogc_{name}/api_client.py",
               f"typescript-fetch/{name}/index.ts"]  # fmt: skip
    assert [one for one in written if not (clients.folder / one).stat().st_size] == []


def test_generated_clients_in_python_call_the_server(clients):
    command = [sys.executable, "-c", PYTHON, clients.root, *SERVICES]
    finished = subprocess.run(
        command, cwd=clients.folder / "python", capture_output=True, text=True, timeout=120, check=False
    )
    assert finished.returncode == 0, finished.stderr[-3_000:]
    assert finished.stdout.splitlines() == [f"ogc_{name} opc_{name}" for name in SERVICES]
