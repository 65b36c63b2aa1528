"""The registry of formats, and what is written of it."""

from pathlib import Path

from tests.journeys.server import run
from tollhouse.catalogue.importers.formats import FORMATS

DOCS = Path(__file__).parents[3] / "docs" / "importers.md"


def test_documentation_lists_every_format_as_it_is_registered():
    rows = [f"| `{form.name}` | {form.help} | {form.prices} |" for form in FORMATS.values()]
    text = DOCS.read_text("utf-8")
    listed = [line for line in text.splitlines() if line.startswith("| `") and line.split("`")[1] in FORMATS]
    assert listed == rows


def test_help_names_every_format(tmp_path):
    for command in ("import", "new"):
        text = run(command, "--help", cwd=tmp_path).stdout
        words = " ".join(text.replace("│", " ").split())
        assert all(name in words for name in FORMATS), command
