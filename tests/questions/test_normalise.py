import pytest

from tollhouse.questions.normalise import fold, language_of, tokenise


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("six hundred", 600),
        ("two hundred and fifty", 250),
        ("twenty-three", 23),
        ("a grand", 1000),
        ("1.5k", 1500),
        ("1,000", 1000),
        ("1.000", 1000),
        ("half a million", 500_000),
        ("un milliard", 1_000_000_000),
        ("zwölf", 12),
    ],
)
def test_number_words_are_one_number(text, value):
    assert [token.number for token in tokenise(text)] == [value]


def test_contraction_of_not_is_a_word_of_its_own():
    assert [token.folded for token in tokenise("they aren't")] == ["they", "are", "not"]


def test_folding_keeps_the_length():
    assert fold("Straße à Zürich") == "strase a zurich"


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Which ships are from Malta?", "en"),
        ("Wie viele Schiffe kommen aus Malta?", "de"),
        ("¿Cuántos barcos son de Malta?", "es"),
        ("Combien de navires viennent de Malte ?", "fr"),
    ],
)
def test_language_is_that_of_the_function_words(text, language):
    assert language_of(tokenise(text)) == language
