"""The public names of the package: typed, documented, and imported only when they are used."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import tollhouse

ROOT = Path(tollhouse.__file__).parent
PAGE = ROOT.parents[1] / "docs" / "library.md"
LIGHT = """
import json, sys
import tollhouse
before = len([name for name in sys.modules if name.startswith("tollhouse.")])
tollhouse.toll
print(json.dumps([before, "tollhouse.app" in sys.modules, "numpy" in sys.modules]))
"""


def test_every_public_name_is_there_typed_and_described():
    stub = ast.parse((ROOT / "__init__.pyi").read_text("utf-8"))
    typed = {alias.asname for line in stub.body if isinstance(line, ast.ImportFrom) for alias in line.names}
    assert typed == set(tollhouse.__all__) <= set(dir(tollhouse))
    page = PAGE.read_text("utf-8")
    for name in tollhouse.__all__:
        assert getattr(tollhouse, name) is not None
        assert f"`{name}" in page, name


def test_stub_names_the_places_of_the_code():
    stub = ast.parse((ROOT / "__init__.pyi").read_text("utf-8"))
    for line in stub.body:
        if isinstance(line, ast.ImportFrom):
            assert line.module is not None
            assert {alias.name for alias in line.names} <= set(tollhouse._PLACES[line.module])


def test_import_of_the_package_imports_nothing_else():
    run = subprocess.run([sys.executable, "-c", LIGHT], check=True, capture_output=True, text=True)
    assert json.loads(run.stdout) == [0, False, False]
