"""An invalid studio document is rejected with line and reason."""

import re

import msgspec
import pytest

from tollhouse.services.studio.document import DocumentError, read_document
from tollhouse.services.studio.service import bundled

VALID = bundled().read_text("utf-8")


def _line_of(text: str, part: str) -> int:
    return text[: text.index(part)].count("\n") + 1


def test_bundled_document_is_valid_and_says_it_is_fictional():
    catalogue = read_document(VALID.encode())
    assert "fictional" in catalogue.studio
    assert "not a quote" in catalogue.pricing_note
    assert catalogue.first_engagement.stage == "Block 0"
    assert {product.id for product in catalogue.products} == {p for c in catalogue.operating_layers for p in c.products}


def test_members_are_those_of_the_contract():
    catalogue = msgspec.to_builtins(read_document(VALID.encode()))
    assert list(catalogue) == ["studio", "version", "currency", "pricing_note", "operating_layers", "products",
                               "first_engagement"]  # fmt: skip
    assert list(catalogue["operating_layers"][0]) == ["id", "name", "summary", "products"]
    assert list(catalogue["products"][0]) == ["id", "name", "layer", "summary", "deliverables", "indicative_price",
                                              "duration"]  # fmt: skip
    assert catalogue["products"][0]["indicative_price"] == {"from": 6000, "to": 9000, "unit": "per study"}
    assert list(catalogue["first_engagement"]) == ["stage", "steps", "outputs", "next"]


@pytest.mark.parametrize(
    ("old", "new", "marked", "reason"),
    [
        ('currency: "EUR"', 'currency: "euro"', 'currency: "euro"', "currency: expected `str` matching regex"),
        ('currency: "EUR"', 'colour: "red"', "studio:", "the document: object"),
        ("from: 8000", "from: cheap", "from: cheap", "products[2].indicative_price.from: expected `int`, got `str`"),
        ("from: 8000", "from: -8000", "from: -8000", "products[2].indicative_price.from"),
        ("from: 8000", "from: 80.5", "from: 80.5", "products[2].indicative_price.from"),
        ("to: 14000", "to: 7000", "to: 7000", "products[2].indicative_price.to: must not be less than from"),
        ("id: launch-sprint", "id: care-plan", 'id: care-plan\n    name: "Care', "duplicate id care-plan"),
        ("products: [launch-sprint]", "products: [landing]", "products: [landing]", "product landing does not exist"),
        ("products: [launch-sprint]", "products: []", "- id: launch-sprint", "deliver does not list launch-sprint"),
        ("    layer: operate", "    layer: nowhere", "care-plan]", "product care-plan is in layer nowhere"),
        ('stage: "Block 0"', 'stage: "Block 1"', "stage:", "first_engagement.stage: invalid enum value 'Block 1'"),
        ("  - id: design\n", "  - id: design\n    id: other\n", "    id: other", "id: duplicate key"),
        ("operating_layers:", "operating_layers: [", "  - id: discover", "expected the node content"),
        ('    duration: "4 weeks"\n', "", "- id: launch-sprint", "missing required field `duration`"),
        ('deliverables: ["Monthly report", "Agreed response times"]', "deliverables: []", "deliverables: []", "length"),
    ],
)  # fmt: skip
def test_invalid_edit_is_rejected_with_its_line(old, new, marked, reason):
    assert old in VALID
    text = VALID.replace(old, new, 1)
    with pytest.raises(DocumentError, match=re.escape(reason)) as caught:
        read_document(text.encode())
    assert caught.value.line == _line_of(text, marked)


@pytest.mark.parametrize(
    ("raw", "line", "reason"),
    [
        (b"", 1, "the file is empty"),
        (b"- a\n", 1, "the document: expected `object`, got `array`"),
        (b"a: 1\nb: \xff\n", 2, "the file is not UTF-8"),
        (b"a: &a [1]\nb: *c\n", 2, "found undefined alias"),
        (b"a: \x00", 0, "the file is not YAML"),
        (b"[" * 100_000, 0, "the file is not YAML"),
        (b"a: " + b"[" * 40 + b"]" * 40, 1, "nested too deeply"),
        (b"#" * 1_048_577, 0, "the file may have at most"),
    ],
)
def test_file_that_is_not_a_document_is_rejected(raw, line, reason):
    with pytest.raises(DocumentError, match=re.escape(reason)) as caught:
        read_document(raw)
    assert caught.value.line == line


def test_unquoted_dates_and_booleans_stay_text():
    text = VALID.replace('version: "1.0.0"', "version: 2026-11-21").replace('name: "Discover"', "name: no")
    catalogue = read_document(text.encode())
    assert (catalogue.version, catalogue.operating_layers[0].name) == ("2026-11-21", "no")
