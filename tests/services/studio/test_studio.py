"""The studio document over HTTP: valid and invalid edits, and restarts."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tollhouse.services.studio.document import LAST_GOOD, DocumentSource, NoDocumentError
from tollhouse.services.studio.service import bundled


def _edit(document, old: str, new: str) -> None:
    path = Path(document)
    path.write_text(path.read_text("utf-8").replace(old, new), "utf-8")


def _remove(document) -> None:
    Path(document).unlink()


async def _until(client, path: str, condition: Callable[[Any], bool]) -> Any:
    """The response body, once `condition` holds for it."""
    for _ in range(100):
        body = (await client.get(path)).json()
        if condition(body):
            return body
        await asyncio.sleep(0.05)
    raise AssertionError(body)


async def test_demo_studio_is_served_without_a_setting(studio):
    async with studio() as client:
        response = await client.get("/api/catalogue")
        assert response.status_code == 200
        assert response.headers["content-type"] == "application/json"
        assert response.json()["first_engagement"]["stage"] == "Block 0"
        health = (await client.get("/health")).json()
        assert health["status"] == "ok"
        assert health["document"]["file"] == "demo-studio.yaml"


async def test_openapi_description_matches_the_contract(studio):
    async with studio() as client:
        document = (await client.get("/api/openapi.json")).json()
        assert (document["openapi"], document["info"]["version"]) == ("3.1.0", "1.0.0")
        assert document["paths"]["/api/catalogue"]["get"]["operationId"] == "getStudioCatalogue"


async def test_parameters_and_other_methods_are_rejected(studio):
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
        await _until(client, "/api/catalogue", lambda body: body["version"] == "1.1.0")
        assert (await client.get("/api/catalogue")).headers["etag"] != before


async def test_invalid_edit_is_reported_and_the_last_valid_version_stays(studio, document):
    async with studio(document) as client:
        _edit(document, 'currency: "EUR"', 'currency: "euro"')
        health = await _until(client, "/health", lambda body: body["status"] == "degraded")
        assert health["document"]["problem"]["line"] == 7
        assert health["document"]["problem"]["reason"].startswith("currency: ")
        assert (await client.get("/api/catalogue")).json()["currency"] == "EUR"
        _edit(document, 'currency: "euro"', 'currency: "CHF"')
        await _until(client, "/api/catalogue", lambda body: body["currency"] == "CHF")
        assert (await client.get("/health")).json()["document"]["problem"] is None


async def test_last_valid_version_is_served_after_the_file_is_deleted(studio, document):
    async with studio(document) as client:
        _remove(document)
        health = await _until(client, "/health", lambda body: body["status"] == "degraded")
        assert health["document"]["problem"]["reason"].startswith("the file cannot be read")
        assert (await client.get("/api/catalogue")).status_code == 200


async def test_last_valid_version_is_served_after_a_restart(studio, document):
    async with studio(document) as client:
        before = (await client.get("/api/catalogue")).json()
    _edit(document, "products: [launch-sprint]", "products: [nothing]")
    async with studio(document) as client:
        assert (await client.get("/api/catalogue")).json() == before
        status = (await client.get("/health")).json()["document"]
        assert status["served_from"] == "last-good-copy"
        assert "product nothing does not exist" in status["problem"]["reason"]


async def test_rejected_edit_is_logged_with_its_line(studio, document, capsys):
    async with studio(document) as client:
        _edit(document, 'currency: "EUR"', 'currency: "euro"')
        await _until(client, "/health", lambda body: body["status"] == "degraded")
    log = capsys.readouterr().out
    assert "studio document rejected" in log
    assert "line=7" in log


def test_server_does_not_start_without_a_valid_document(document, tmp_path):
    _edit(document, 'currency: "EUR"', 'currency: "euro"')
    with pytest.raises(NoDocumentError, match=r"studio_file: .*studio.yaml: line 7: currency"):
        DocumentSource(Path(document), tmp_path / "data")


def test_invalid_copy_does_not_replace_a_valid_file(tmp_path):
    tmp_path.joinpath(LAST_GOOD).write_text("nonsense")
    source = DocumentSource(bundled(), tmp_path)
    assert source.status().served_from == "file"
    assert tmp_path.joinpath(LAST_GOOD).read_bytes() == bundled().read_bytes()


def test_service_works_without_write_access_for_the_copy(tmp_path):
    tmp_path.joinpath("data").write_text("a file where the folder should be")
    assert DocumentSource(bundled(), tmp_path / "data").status().problem is None
