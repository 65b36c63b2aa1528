"""The studio's document over HTTP: served, edited, broken, mended, restarted."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tollhouse.services.studio.document_source import LAST_GOOD, NoDocumentError, Shelf
from tollhouse.services.studio.service import bundled


def _edit(document, old: str, new: str) -> None:
    path = Path(document)
    path.write_text(path.read_text("utf-8").replace(old, new), "utf-8")


def _remove(document) -> None:
    Path(document).unlink()


async def _until(client, path: str, told: Callable[[Any], bool]) -> Any:
    """What the server answers once `told` holds of it."""
    for _ in range(100):
        answer = (await client.get(path)).json()
        if told(answer):
            return answer
        await asyncio.sleep(0.05)
    raise AssertionError(answer)


async def test_demo_studio_is_served_without_a_setting(studio):
    async with studio() as client:
        answer = await client.get("/api/catalogue")
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "application/json"
        assert answer.json()["first_engagement"]["stage"] == "Block 0"
        health = (await client.get("/health")).json()
        assert health["status"] == "ok"
        assert health["document"]["file"] == "demo-studio.yaml"


async def test_description_is_as_the_contract_says(studio):
    async with studio() as client:
        document = (await client.get("/api/openapi.json")).json()
        assert (document["openapi"], document["info"]["version"]) == ("3.1.0", "1.0.0")
        assert document["paths"]["/api/catalogue"]["get"]["operationId"] == "getStudioCatalogue"


async def test_parameters_and_other_methods_are_refused(studio):
    async with studio() as client:
        assert (await client.get("/api/catalogue?x=1")).status_code == 400
        assert (await client.post("/api/catalogue", json={})).status_code == 405


async def test_unchanged_document_is_not_sent_again(studio):
    async with studio() as client:
        first = await client.get("/api/catalogue")
        again = await client.get("/api/catalogue", headers={"If-None-Match": first.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")


async def test_edit_is_served_without_a_restart(studio, document):
    async with studio(document) as client:
        before = (await client.get("/api/catalogue")).headers["etag"]
        _edit(document, 'version: "1.0.0"', 'version: "1.1.0"')
        await _until(client, "/api/catalogue", lambda answer: answer["version"] == "1.1.0")
        assert (await client.get("/api/catalogue")).headers["etag"] != before


async def test_broken_edit_is_told_and_the_last_good_one_stays(studio, document):
    async with studio(document) as client:
        _edit(document, 'currency: "EUR"', 'currency: "euro"')
        health = await _until(client, "/health", lambda answer: answer["status"] == "degraded")
        assert health["document"]["problem"]["line"] == 7
        assert health["document"]["problem"]["reason"].startswith("currency: ")
        assert (await client.get("/api/catalogue")).json()["currency"] == "EUR"
        _edit(document, 'currency: "euro"', 'currency: "CHF"')
        await _until(client, "/api/catalogue", lambda answer: answer["currency"] == "CHF")
        assert (await client.get("/health")).json()["document"]["problem"] is None


async def test_deleted_file_leaves_the_last_good_one(studio, document):
    async with studio(document) as client:
        _remove(document)
        health = await _until(client, "/health", lambda answer: answer["status"] == "degraded")
        assert health["document"]["problem"]["reason"].startswith("the file cannot be read")
        assert (await client.get("/api/catalogue")).status_code == 200


async def test_last_good_one_outlives_a_restart(studio, document):
    async with studio(document) as client:
        before = (await client.get("/api/catalogue")).json()
    _edit(document, "products: [launch-sprint]", "products: [nothing]")
    async with studio(document) as client:
        assert (await client.get("/api/catalogue")).json() == before
        told = (await client.get("/health")).json()["document"]
        assert told["served_from"] == "last-good-copy"
        assert "there is no product nothing" in told["problem"]["reason"]


async def test_refused_edit_stands_in_the_log_with_its_line(studio, document, capsys):
    async with studio(document) as client:
        _edit(document, 'currency: "EUR"', 'currency: "euro"')
        await _until(client, "/health", lambda answer: answer["status"] == "degraded")
    log = capsys.readouterr().out
    assert "studio document refused" in log
    assert "line=7" in log


def test_nothing_good_to_serve_stops_the_start(document, tmp_path):
    _edit(document, 'currency: "EUR"', 'currency: "euro"')
    with pytest.raises(NoDocumentError, match=r"studio_file: .*studio.yaml: line 7: currency"):
        Shelf(Path(document), tmp_path / "data")


def test_copy_of_another_server_does_not_replace_a_good_file(tmp_path):
    tmp_path.joinpath(LAST_GOOD).write_text("nonsense")
    shelf = Shelf(bundled(), tmp_path)
    assert shelf.standing().served_from == "file"
    assert tmp_path.joinpath(LAST_GOOD).read_bytes() == bundled().read_bytes()


def test_serving_goes_on_where_no_copy_can_be_kept(tmp_path):
    tmp_path.joinpath("data").write_text("a file where the folder should be")
    assert Shelf(bundled(), tmp_path / "data").standing().problem is None
