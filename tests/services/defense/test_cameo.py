import msgspec
import pytest

from tests.services.defense.test_exports import LINE
from tollhouse.services.defense.ingest import cameo
from tollhouse.services.defense.ingest.exports import parse_export

ROW = parse_export(LINE).rows[0]


@pytest.mark.parametrize(
    ("code", "category"),
    [("010", "Political"), ("057", "Political"), ("061", "Economic"), ("071", "Economic"), ("085", "Economic"),
     ("163", "Economic"), ("162", "Economic"), ("1622", "Political"), ("1312", "Economic"), ("1211", "Economic"),
     ("141", "Protests"), ("1451", "Protests"), ("173", "Political"), ("190", None), ("182", None), ("204", None)],
)  # fmt: skip
def test_code_stands_for_a_category_unless_it_claims_violence(code: str, category: str | None) -> None:
    assert cameo.category(code) == category


@pytest.mark.parametrize(
    ("code", "label"),
    [("190", "Armed clash"), ("193", "Gun battle"), ("195", "Air strike"), ("183", "Bombing"),
     ("1831", "Suicide bombing"), ("141", "Demonstration"), ("145", "Riot"), ("163", "Sanctions"),
     ("061", "Economic cooperation"), ("1839", "Bombing"), ("199", "Armed clash"), ("99", "Event")],
)  # fmt: skip
def test_label_falls_back_to_the_base_code_and_the_root(code: str, label: str) -> None:
    assert cameo.label(code) == label


@pytest.mark.parametrize(
    ("code", "actor", "is_candidate"),
    [("190", "", True), ("1831", "", True), ("203", "", True), ("186", "GOV", True), ("180", "", False),
     ("180", "REB", True), ("181", "MIL", True), ("1823", "COP", False), ("184", "INS", True), ("191", "MIL", False),
     ("192", "MIL", False), ("173", "MIL", False)],
)  # fmt: skip
def test_battle_candidates_are_fights_and_assaults_by_armed_actors(code: str, actor: str, is_candidate: bool) -> None:
    row = msgspec.structs.replace(ROW, code=code, actor1_type=actor)
    assert cameo.is_battle_candidate(row) is is_candidate
