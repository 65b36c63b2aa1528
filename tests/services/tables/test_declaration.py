"""The declaration's file: read strictly, and every fault named with its line and key."""

import pytest

from tests.services.tables.books import books, declare
from tollhouse.config.declaration import DeclarationError, declaration_files
from tollhouse.services.tables.declaration import read_declaration

GOOD = """title = "Things"
price_usd = 0.002

[table]
file = "things.csv"
format = "csv"

[fields.name]
type = "text"
searched = 5

[fields."size"]
type = "keyword"
filtered = true
"""


def refusal(tmp_path, text):
    path = tmp_path / "things.toml"
    path.write_text(text)
    with pytest.raises(DeclarationError) as raised:
        read_declaration(path)
    message = str(raised.value)
    assert "\n" not in message
    assert message.startswith(f"{path}")
    return message.removeprefix(f"{path}")


def test_few_lines_are_a_declaration(tmp_path):
    path = tmp_path / "things.toml"
    path.write_text(GOOD)
    read = read_declaration(path)
    assert (read.name, read.price_micros, read.free_per_day, read.licence) == ("things", 2_000, 100, "unknown")
    assert read.location == str(tmp_path / "things.csv")
    assert list(read.fields) == ["name", "size"]


@pytest.mark.parametrize(
    ("good", "bad", "message"),
    [
        ("[table]", "[table", ": is not valid TOML: "),
        ('title = "Things"\n', "", ": title: is required"),
        ('title = "Things"', 'title = ""', ", line 1: title: is required: a few words"),
        ('title = "Things"', "title = 5", ", line 1: title: expected `str`, got `int`"),
        ('title = "Things"', 'titel = "Things"\ntitle = "x"', ", line 1: titel: unknown key; known keys are tit"),
        ("price_usd = 0.002", "price_usd = 0", ", line 2: price_usd: must be above 0"),
        ("price_usd = 0.002", "price_usd = 0.00000002", ", line 2: price_usd: must be above 0"),
        ("price_usd = 0.002", 'price_usd = "nan"', ", line 2: price_usd: must be above 0"),
        ("price_usd = 0.002", "free_per_day = -1", ", line 2: free_per_day: must be between"),
        ('format = "csv"', 'format = "xls"', ", line 6: table.format: must be one of csv, jsonl, jsonld, merchant-xml"),
        ('format = "csv"', 'format = "csv"\ntitle = "nothing"', ", line 7: table.title: must name a field"),
        ('format = "csv"', 'format = "csv"\ncolour = 1', ", line 7: table.colour: unknown key; known keys are f"),
        ('format = "csv"', 'format = "csv"\ndelimiter = ""', ", line 7: table.delimiter: must be one character"),
        ('type = "text"', 'type = "words"', ", line 9: fields.name.type: must be one of text, keyword, list, integer,"),
        ('type = "text"', 'type = "text"\nfaceted = true', ", line 10: fields.name.faceted: text cannot be"),
        ("searched = 5", "searched = -5", ", line 10: fields.name.searched: must be between 0 and 1000"),
        ("searched = 5", 'searched = "much"', ", line 10: fields.name.searched: expected `float`"),
        ("searched = 5", "heavy = true", ", line 10: fields.name.heavy: unknown key; known keys are type, column,"),
        ('[fields."size"]', '[fields."size (cm)"]', ", line 12: fields.size (cm): a field's name is"),
        ('[fields."size"]', "[fields.limit]", ", line 12: fields.limit: the name limit is taken"),
        ('[fields."size"]', "[fields.min_size]", ", line 12: fields.min_size: a name cannot begin with min_"),
        (GOOD[GOOD.index("[fields.name]") :], "[fields]", ": fields: there must be between 1 and 200"),
    ],
)  # fmt: skip
def test_fault_names_its_line_and_its_key(tmp_path, good, bad, message):
    assert good in GOOD
    assert message in refusal(tmp_path, GOOD.replace(good, bad, 1))


def test_definition_that_new_writes_is_read_back_unchanged(home):
    path = declare(
        home, books(60), title='He said "no" \\ \x7f é', description="Two\nlines", licence="CC-BY 4.0", source="x"
    )
    read = read_declaration(path)
    assert (read.title, read.description, read.licence) == ('He said "no" \\ \x7f é', "Two\nlines", "CC-BY 4.0")
    assert (read.table.id, read.table.title, read.table.file) == ("ISBN", "book_title", "../books.csv")
    assert read.fields["price"].currency == "EUR"
    assert read.fields["published"].format == "DD.MM.YYYY"
    assert read.fields["subjects"].type == "list"


@pytest.mark.parametrize("name", ["Books", "mattress", "tables", "a_b"])
def test_file_that_cannot_name_a_service_stops_the_start(tmp_path, name):
    (tmp_path / f"{name}.toml").write_text(GOOD)
    with pytest.raises(DeclarationError, match=name):
        list(declaration_files(tmp_path, {"mattress"}))


def test_folder_that_is_not_there_declares_nothing(tmp_path):
    assert not list(declaration_files(tmp_path / "nowhere", ()))
