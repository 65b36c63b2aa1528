"""Every test that the page on security names exists."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_security_page_names_tests_that_exist():
    page = (ROOT / "docs/security.md").read_text("utf-8")
    table = page.partition("| hole |")[2].partition("\n\n")[0]
    named = {name for row in table.splitlines() for name in re.findall(r"`(\w{20,})`", row.rpartition(" | ")[2])}
    assert len(named) > 40
    sources = "\n".join(path.read_text("utf-8") for path in (ROOT / "tests").rglob("*.py"))
    assert named - set(re.findall(r"def (\w+)\(", sources)) == set()
