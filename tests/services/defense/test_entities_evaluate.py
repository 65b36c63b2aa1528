import pytest

from tollhouse.services.defense.evaluate_entities import evaluate, our_type, read_conll


def write(path, *sentences: tuple[str, ...]):
    path.write_text("\n\n".join("\n".join(lines) for lines in sentences) + "\n", encoding="utf-8")
    return path


AUSTIN = ("Lloyd\tB-Person", "Austin\tI-Person", "visited\tO", "Kyiv\tB-Location", ".\tO")


def test_what_is_marked_and_found_counts(tmp_path):
    figures = evaluate(write(tmp_path / "gold.conll", AUSTIN), lambda _: None)
    assert (figures["f1"], figures["precision"], figures["recall"]) == (1, 1, 1)
    assert set(figures["by_type"]) == {"person", "location"}
    assert figures["tokens_per_s"] > 0


def test_half_a_span_is_wrong(tmp_path):
    gold = write(tmp_path / "gold.conll", ("Lloyd\tO", "Austin\tB-Person", *AUSTIN[2:]))
    figures = evaluate(gold, lambda _: None)
    assert figures["by_type"]["person"] == {"f1": 0, "precision": 0, "recall": 0}
    assert figures["f1"] == 0.5


def test_a_span_of_another_type_is_wrong(tmp_path):
    gold = write(tmp_path / "gold.conll", (*AUSTIN[:3], "Kyiv\tB-Organisation", ".\tO"))
    assert evaluate(gold, lambda _: None)["by_type"]["location"]["precision"] == 0


def test_types_without_a_counterpart_are_left_out(tmp_path):
    gold = write(tmp_path / "gold.conll", AUSTIN, ("In\tO", "May\tB-Temporal", "of\tI-Temporal", "2016\tI-Temporal"))
    assert evaluate(gold, lambda _: None)["f1"] == 1


def test_spans_that_begin_with_i_or_end_the_file_count(tmp_path):
    gold = tmp_path / "gold.conll"
    gold.write_text("He\tO\nmet\tO\nLloyd\tI-PER\nAustin\tI-PER", encoding="utf-8")
    assert evaluate(gold, lambda _: None)["recall"] == 1


def test_where_pronouns_are_marked_they_are_sought(tmp_path):
    gold = write(
        tmp_path / "gold.conll", ("We\tB-Organisation", "left\tO", "the\tB-Location", "city\tI-Location", ".\tO")
    )
    assert evaluate(gold, lambda _: None)["f1"] == 1


def test_weapons_and_military_platforms_are_platforms(tmp_path):
    lines = ("A\tO", "T-90\tB-MilitaryPlatform", "fired\tO", "a\tO", "Kornet\tB-Weapon", ".\tO")
    assert evaluate(write(tmp_path / "gold.conll", lines), lambda _: None)["by_type"]["platform"]["recall"] == 1


def test_an_empty_file_has_no_figures_but_zero(tmp_path):
    figures = evaluate(write(tmp_path / "gold.conll"), lambda _: None)
    assert figures == {"f1": 0, "precision": 0, "recall": 0, "by_type": {}, "tokens_per_s": 0}


def test_columns_between_token_and_label_are_passed_over(tmp_path):
    assert list(read_conll(write(tmp_path / "gold.conll", ("Kyiv NNP B-NP B-LOC",)))) == [[("Kyiv", "B-LOC")]]


@pytest.mark.parametrize(
    ("label", "type_"),
    [("corporation", "organization"), ("GPE", "location"), ("geo-loc", "location"), ("product", None), ("Money", None)],
)
def test_annotators_types_are_mapped(label, type_):
    assert our_type(label) == type_
