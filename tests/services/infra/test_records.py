"""The catalogue's files are whole, and a fault in them is found before it is served."""

import shutil
from importlib.resources import as_file
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tollhouse.services.infra.company import CONFIDENCE, SUPPLY_KINDS
from tollhouse.services.infra.records import CatalogueError, CategoryRow, bundled, find_errors, read_records


@pytest.fixture(scope="module")
def records():
    return read_records(bundled())


@pytest.fixture
def folder(tmp_path) -> Path:
    with as_file(bundled()) as path:
        return Path(shutil.copytree(path, tmp_path / "catalogue"))


def _changed(rows: Any, **changes: Any) -> Any:
    return (msgspec.structs.replace(rows[0], **changes), *rows[1:])


def test_bundled_catalogue_has_no_fault(records):
    assert find_errors(records) == []
    assert (len(records.categories), len(records.companies), len(records.edges)) == (15, 65, 162)


def test_every_edge_has_a_class_and_the_confidence_of_it(graph):
    for edge in graph.edges:
        (evidence,) = edge.evidence
        assert edge.confidence == CONFIDENCE[evidence.evidence_class]
        assert evidence.url is None
    assert {edge.kind for edge in graph.edges} <= SUPPLY_KINDS | {"invests_in", "partners_with"}


def test_unverified_listing_names_no_ticker(graph):
    unverified = [company for company in graph.companies if company.listing == "unverified"]
    assert {company.id for company in unverified} == {"openai", "anthropic", "lambda"}
    assert all(company.ticker is None and company.note for company in unverified)


@pytest.mark.parametrize(
    ("table", "changes", "fault"),
    [
        ("companies", {"category": "toys"}, "companies.toml: shin_etsu: category 'toys' does not exist"),
        ("companies", {"country": "XX"}, "companies.toml: shin_etsu: 'XX' is not an ISO 3166-1 alpha-2 code"),
        ("companies", {"ticker": None}, "shin_etsu: a company must have a ticker exactly if its listing is public"),
        ("companies", {"website": "http://a.example"}, "shin_etsu: a website must start with https://"),
        ("companies", {"id": "Shin Etsu"}, "Shin Etsu: an id must have 2 to 40"),
        ("edges", {"target": "nobody"}, "edges.csv:2: company 'nobody' does not exist"),
        ("edges", {"target": "shin_etsu"}, "edges.csv:2: an edge must have two different companies"),
        ("edges", {"kind": "likes"}, "edges.csv:2: 'likes' is not a stored kind of edge"),
        ("edges", {"kind": "competes_with"}, "edges.csv:2: 'competes_with' is not a stored kind of edge"),
        ("edges", {"evidence_class": "hearsay"}, "edges.csv:2: 'hearsay' is not a class of evidence"),
        ("edges", {"evidence_url": "ftp://a"}, "edges.csv:2: evidence_url must start with https://"),
        ("edges", {"evidence_date": "soon"}, "edges.csv:2: evidence_date must be a year, a month or a day"),
        ("edges", {"target": "samsung"}, "edges.csv:3: duplicate of line 2"),
    ],
)
def test_error_is_reported_with_its_place(records, table, changes, fault):
    broken = msgspec.structs.replace(records, **{table: _changed(getattr(records, table), **changes)})
    assert any(fault in found for found in find_errors(broken))


@pytest.mark.parametrize("name", [{"id": "asml"}, {"ticker": "ASML"}, {"aliases": ("ASML Holding",)}, {"name": "asml"}])
def test_name_of_two_companies_is_rejected(records, name):
    broken = msgspec.structs.replace(records, companies=_changed(records.companies, **name))
    assert any("asml" in fault.casefold() for fault in find_errors(broken))


def test_no_name_may_mean_two_categories(records):
    twin = CategoryRow("toys", "Toys", ("hbm",))
    broken = msgspec.structs.replace(records, categories=(*records.categories, twin))
    assert find_errors(broken) == ["categories.toml: toys: 'hbm' already names memory"]


def test_a_faulty_folder_is_not_read(folder):
    with folder.joinpath("edges.csv").open("a") as file:
        file.write("tsmc,nobody,manufactures_for,,,company_filing,,\n")
    with pytest.raises(CatalogueError, match=r"edges\.csv:164: company 'nobody' does not exist"):
        read_records(folder)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("companies.toml", "[[company]", "companies.toml"),
        ("companies.toml", "[[company]]\nid = 'x'\nwage = 3\n", "unknown field `wage`"),
        ("edges.csv", "source,target\na,b\n", "edges.csv:2"),
        ("categories.toml", None, "categories.toml"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(folder, name, text, message):
    if text is None:
        folder.joinpath(name).unlink()
    else:
        folder.joinpath(name).write_text(text)
    with pytest.raises(CatalogueError, match=message):
        read_records(folder)


def test_a_company_added_by_hand_is_served(folder):
    with folder.joinpath("companies.toml").open("a") as file:
        file.write('\n[[company]]\nid = "acme"\nname = "Acme"\ncategory = "wfe"\ncountry = "FI"\nlisting = "private"\n')
    with folder.joinpath("edges.csv").open("a") as file:
        file.write("acme,tsmc,supplies_equipment,anvils,anvils,widely_reported,,\n")
    records = read_records(folder)
    assert records.companies[-1].id == "acme"
    assert records.companies[-1].ticker is None
    assert records.edges[-1].slots == ("anvils",)
