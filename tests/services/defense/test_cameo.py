import pytest

from tollhouse.services.defense.ingest import export_parser as cameo


@pytest.mark.parametrize(
    ("code", "category"),
    [("010", "Political"), ("057", "Political"), ("061", "Economic"), ("071", "Economic"), ("085", "Economic"),
     ("163", "Economic"), ("162", "Economic"), ("1622", "Political"), ("1312", "Economic"), ("1211", "Economic"),
     ("141", "Protests"), ("1451", "Protests"), ("173", "Political"), ("190", None), ("182", None), ("204", None)],
)  # fmt: skip
def test_code_stands_for_a_category_unless_it_claims_violence(code: str, category: str | None) -> None:
    assert cameo.cameo_category(code) == category


@pytest.mark.parametrize(
    ("code", "label"),
    [("190", "Armed clash"), ("193", "Gun battle"), ("195", "Air strike"), ("183", "Bombing"),
     ("1831", "Suicide bombing"), ("141", "Demonstration"), ("145", "Riot"), ("163", "Sanctions"),
     ("061", "Economic cooperation"), ("1839", "Bombing"), ("199", "Armed clash"), ("99", "Event")],
)  # fmt: skip
def test_label_falls_back_to_the_base_code_and_the_root(code: str, label: str) -> None:
    assert cameo.cameo_label(code) == label


@pytest.mark.parametrize(
    ("code", "is_violence"),
    [("180", True), ("1831", True), ("186", True), ("190", True), ("192", True), ("203", True), ("173", False),
     ("145", False), ("019", False)],
)  # fmt: skip
def test_every_code_of_assault_fighting_and_mass_violence_is_put_to_the_classifier(
    code: str, is_violence: bool
) -> None:
    assert cameo.is_violence(code) is is_violence
