"""What a mattress is like by its seller's words, and which words decided."""

import pytest

from tollhouse.services.mattress.attributes.derive import derive
from tollhouse.services.mattress.attributes.lexicon import ProductTexts, words
from tollhouse.services.mattress.product import COOLING, FIRMNESS, MATERIALS, SIZES, SLEEP_POSITIONS


def finding_for(attribute, title="", description="", tags=(), **declared: str):
    texts = ProductTexts(title, tuple(tags), description, {name: (label,) for name, label in declared.items()})
    return derive(texts).get(attribute)


def value(attribute, **texts: object):
    finding = finding_for(attribute, **texts)
    return finding.value if finding else None


@pytest.mark.parametrize(
    ("title", "size"),
    [
        ("Cloud Queen Mattress", "Queen"),
        ("Cloud Mattress - Super King", "Super King"),
        ("Cloud King Single", "King Single"),
        ("Cloud KING-SINGLE", "King Single"),
        ("Cloud Mattress QB", "Queen"),
        ("Cloud Mattress (K)", "King"),
        ("Cloud 153 x 203cm", "Queen"),
        ("Cloud 1530mm \xd7 2030mm", "Queen"),
        ("Cloud 1.83m x 2.03m", "King"),
        ("Cloud 203 x 107 cm", "King Single"),
        ("Cloud 92 x 188 x 30cm", "Single"),
        ("King Koil Conforma Queen", "Queen"),
        ("King Koil Spinal Care", None),
        ("Double Sided Pocket Spring", None),
        ("S Class Mattress", None),
        ("Long Single Mattress", None),
        ("California King Mattress", None),
        ("Single to King sizes", None),
        ("Cloud 100 x 100cm", None),
        ("Dunlin", None),
    ],
)
def test_title_names_the_size(title, size):
    assert value("size", title=title) == size


@pytest.mark.parametrize(
    ("label", "size"),
    [("Q", "Queen"), ("QB", "Queen"), ("K/Single", "King Single"), ("KS", "King Single"), ("DBL", "Double"),
     ("Queen (153x203)", "Queen"), ("SK", "Super King"), ("183 x 203", "King"), ("Long Single", None),
     ("Default Title", None), ("Sand", None)],
)  # fmt: skip
def test_option_names_the_size(label, size):
    assert value("size", size=label) == size


def test_sizes_in_a_description_count_only_as_measures():
    assert value("size", description="Fits king sheets and queen frames") is None
    assert value("size", description="Measures 153cm W x 203cm L x 30cm H") == "Queen"


@pytest.mark.parametrize(
    ("text", "firmness"),
    [
        ("A firm mattress.", 7),
        ("A firm pocket spring mattress with a soft knitted cover.", 7),
        ("It has a medium-firm feel.", 6),
        ("Medium firm feel on both sides.", 6),
        ("Feels medium to firm.", 6),
        ("Firmness: medium/firm", 6),
        ("Extra firm comfort for strong backs", 9),
        ("Plush feel", 3),
        ("Plush, cloud-soft memory foam", 3),
        ("Firm, breathable latex from Sri Lanka", 7),
        ("Extra firm orthopaedic pocket springs.", 9),
        ("A layer of soft memory foam", None),
        ("Soft memory foam layer and a cotton cover", None),
        ("Soft cotton cover", None),
        ("Soft foam over firm springs", None),
        ("Soft memory foam with a medium feel", 5),
        ("Firmness: 7/10", 7),
        ("firmness 6-7 out of 10", 7),
        ("Firmness rating 3/5", 6),
        ("We rate it 8 out of 10 for firmness", 8),
        ("Not too firm, not too soft.", 5),
        ("It isn't too soft or too firm", 5),
        ("It is not a firm mattress.", None),
        ("Not firm, but a medium feel", 5),
        ("If you like a firm mattress, look elsewhere", None),
        ("softer than a firm mattress", None),
        ("Soft mattress cover, washable", None),
        ("A soft touch fabric and firm edges", None),
        ("A medium size box", None),
        ("We confirm your order", None),
        ("Firmness: 70%", None),
        ("Firm feel on one side, soft feel on the other", None),
        ("From soft to firm feel", None),
    ],
)
def test_description_tells_the_firmness(text, firmness):
    assert value("firmness", description=text) == firmness


def test_words_that_contradict_are_kept_though_the_value_is_unknown():
    finding = finding_for("firmness", description="Firm feel on one side, soft feel on the other")
    assert (finding.value, finding.words) == (None, ("firm", "soft"))


def test_deciding_words_are_told_with_their_place():
    finding = finding_for("firmness", title="Cloud Firm Queen")
    assert (finding.value, finding.words, finding.place) == (7, ("firm",), "title")


def test_most_telling_place_decides():
    assert value("firmness", title="Cloud Plush", description="A firm feel") == 3
    assert value("firmness", title="Cloud Plush", firmness="8") == 8
    assert value("firmness", tags=("Firm",), description="A soft feel") == 7


@pytest.mark.parametrize(
    ("text", "cooling"),
    [
        ("Cooling gel foam", 4),
        ("A breathable cover", 3),
        ("Phase-change cover over breathable foam", 5),
        ("Cooling rating: 2/5", 2),
        ("It doesn't trap heat.", 3),
        ("It traps heat.", 1),
        ("Cooling gel that traps heat", None),
        ("No cooling", None),
        ("An insulating wool layer", 2),
        ("For cool people", None),
    ],
)
def test_description_tells_how_cool_it_sleeps(text, cooling):
    assert value("cooling", description=text) == cooling


@pytest.mark.parametrize(
    ("text", "positions"),
    [
        ("For side, back & stomach sleepers", ("side", "back", "stomach")),
        ("side-sleepers and back-sleepers", ("side", "back")),
        ("Great for side sleepers, not for stomach sleepers", ("side",)),
        ("Not recommended for stomach or side sleepers", None),
        ("Suits all sleeping positions", ("side", "back", "stomach")),
        ("Sleep on your side or tummy", ("side", "stomach")),
        ("combination sleepers", ("combination",)),
        ("Eases back pain, with side support and money-back guarantee", None),
    ],
)
def test_description_tells_the_sleep_positions(text, positions):
    assert value("sleep_positions", description=text) == positions


@pytest.mark.parametrize(
    ("text", "material"),
    [
        ("A hybrid of foam and pocket springs", "hybrid"),
        ("Pocket springs under memory foam", "hybrid"),
        ("Individually wrapped coils", "pocket spring"),
        ("Bonnell springs", "innerspring"),
        ("Latex-free foam", "foam"),
        ("No latex, only wool", None),
        ("Layers of latex and memory foam", None),
        ("Visco-elastic comfort", "memory foam"),
    ],
)
def test_description_tells_the_material(text, material):
    assert value("material", description=text) == material


def test_unknown_stays_unknown():
    assert derive(ProductTexts("Dunlin", (), "A mattress.")) == {}


def test_words_give_no_value_that_a_product_cannot_have():
    known = words()
    assert {size.label for size in known.size.labels} == set(SIZES)
    assert {label.label for label in known.material.labels} == set(MATERIALS)
    assert {label.label for label in known.sleep_positions.labels} == set(SLEEP_POSITIONS)
    for scale, levels in ((FIRMNESS, known.firmness.levels), (COOLING, known.cooling.levels)):
        assert all(scale[0] <= level.value <= scale[1] for level in levels)
