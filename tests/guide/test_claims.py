"""The pages that make claims name what shows them: settings, problems, figures of performance and of quality."""

import re

import pytest

from tests.guide.documents import ROOT, rows, sections
from tests.guide.test_blocks import command_fault
from tollhouse.config.section import Declaration, declarations
from tollhouse.config.settings import SECTIONS as SERVER_SECTIONS
from tollhouse.errors import CODES
from tollhouse.services import SECTIONS

DOCS = ROOT / "docs"
SCRIPTS = {path.name for path in (ROOT / "benchmarks").glob("*.py")}
QUALITY = sorted(DOCS.glob("quality*.md"))
FIGURE = re.compile(r"^(?:\*\*)?(?:\.\d{2,}|\d+(?:\.\d+)? ?%|\d+ \(\d+(?:\.\d+)? %\))")
COMMAND = re.compile(r"(?:tollhouse evaluate \w+|python -m [\w.]+|(?:python )?benchmarks/\w+\.py)")


DECLARED = declarations([*SERVER_SECTIONS, *SECTIONS])


def documented(declared: Declaration) -> list[str]:
    """The row of `docs/settings.md`; change the declaration first, then copy what this test expects."""
    default = declared.default
    shown = {None: "unset", "": "empty"}.get(default) if isinstance(default, str | None) else None
    if isinstance(default, dict | tuple):
        shown = f"{len(default)} entries" if default else "empty"
    text = (
        str(default).lower() if isinstance(default, bool) else f"{default:g}" if isinstance(default, float) else default
    )
    secret = " **Secret**" if declared.secrecy == "secret" else ""
    return [f"`{declared.name}`", shown or f"`{text}`", f"{declared.meaning}.{secret}"]


def test_settings_page_has_a_row_as_declared_for_every_setting():
    cells = rows((DOCS / "settings.md").read_text("utf-8"))
    assert [row for row in cells if len(row) == 3] == [documented(one) for one in DECLARED.values()]


def test_every_problem_has_its_section_and_every_section_its_problem():
    explained = [heading.strip("`") for heading in sections(DOCS / "problems.md") if heading]
    assert sorted(explained) == sorted(CODES)


def test_every_figure_of_performance_names_a_script_that_is_there():
    cells = rows((DOCS / "performance.md").read_text("utf-8"))
    assert len(cells) > 5
    for row in cells:
        named = re.findall(r"`([^`]+)`", row[1])
        assert named, row[0]
        for name in named:
            assert name.split()[0].removeprefix("benchmarks/") in SCRIPTS or not command_fault(name), row[0]
            assert name.split()[0].endswith(".py") or name.startswith("tollhouse "), row[0]


@pytest.mark.parametrize("page", QUALITY, ids=lambda page: page.stem)
def test_every_table_of_quality_figures_has_its_command_before_it(page):
    """In its own section, or in the first of the page that has one, which then measures the whole page."""
    text = page.read_text("utf-8")
    first = COMMAND.search(text)
    assert first
    assert any(FIGURE.match(cell) for row in rows(text) for cell in row)
    for heading, section in sections(page).items():
        if any(FIGURE.match(cell) for row in rows(section) for cell in row):
            assert COMMAND.search(section) or text.index(section) > first.start(), f"{page.name}: {heading}"
