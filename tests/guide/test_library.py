"""The programs of docs/library.md, run as they stand: each is an application with its own lifespan."""

import sys
from types import ModuleType
from typing import Any

import pytest

from tests.guide.documents import ROOT, blocks
from tests.middleware.apps import forget_django
from tests.middleware.conftest import UNCLOSED, collected  # noqa: F401 - a fixture
from tests.middleware.lifespan import running

PAGE = ROOT / "docs" / "library.md"
pytestmark = pytest.mark.filterwarnings(UNCLOSED)

PROGRAMS = [block for block in blocks(PAGE) if block.language == "python"]


@pytest.fixture
def names(request, data_dir, monkeypatch) -> dict[str, Any]:
    """What the program under this heading names, run in a folder without settings of its own."""
    monkeypatch.setenv("TOLLHOUSE_DATA_DIR", str(data_dir))
    monkeypatch.setenv("TOLLHOUSE_RECORDED", "false")
    monkeypatch.setenv("TOLLHOUSE_BACKGROUND_WORK", "false")
    monkeypatch.chdir(data_dir)
    (program,) = (block for block in PROGRAMS if request.param in block.text)
    module = ModuleType("program")
    monkeypatch.setitem(sys.modules, "program", module)
    forget_django()
    exec(compile(program.text, "program.py", "exec"), vars(module))  # noqa: S102 - the documentation's own programs
    return vars(module)


@pytest.mark.parametrize("names", ["paid = create_app()"], indirect=True)
async def test_mounted_server_answers_below_its_path(names):
    async with running(names["app"]) as client:
        assert (await client.get("/paid/defense/health")).status_code == 200
        assert (await client.post("/paid/api/keys/create", json={"email": "ada@example.org"})).status_code == 200


FRAMEWORKS = ["from fastapi", "middleware=[Middleware(", "from litestar", "from django"]


@pytest.mark.parametrize("names", FRAMEWORKS, indirect=True, ids=["FastAPI", "Starlette", "Litestar", "Django"])
async def test_application_has_a_toll_on_its_route(names):
    async with running(names["app"]) as client:
        answer = await client.get("/forecast/Bern")
        assert (answer.status_code, answer.json()["city"]) == (200, "Bern")
        assert (answer.headers["x-ratelimit-limit"], answer.headers["x-ratelimit-remaining"]) == ("50", "49")
        assert (await client.post("/api/keys/create", json={"email": "ada@example.org"})).status_code == 200


@pytest.mark.parametrize("names", ["open_squares"], indirect=True)
async def test_service_without_a_package_is_served_with_its_price(names):
    async with running(names["app"]) as client:
        answer = await client.get("/api/square?number=12")
        assert (answer.json(), answer.headers["x-ratelimit-limit"]) == ({"square": 144}, "50")
        assert (await client.get("/api/square?number=x")).json()["parameter"] == "number"
        assert "getSquare" in (await client.get("/api/openapi.json")).text


def test_every_program_is_run():
    assert len(PROGRAMS) == len(FRAMEWORKS) + 2
