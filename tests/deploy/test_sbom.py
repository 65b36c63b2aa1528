"""The bill of materials lists what is locked and what is shipped."""

import json
import re
import subprocess
import sys

from tests.deploy.command import ROOT

FROM_PYTHON = {"bomFormat": "CycloneDX", "components": [{"name": "aiosqlite", "bom-ref": "requirements-L1"}]}


def components() -> dict[str, dict]:
    made = subprocess.run(
        [sys.executable, ROOT / "tools/sbom.py"],
        input=json.dumps(FROM_PYTHON),
        capture_output=True,
        text=True,
        check=True,
    )
    return {component["bom-ref"]: component for component in json.loads(made.stdout)["components"]}


def test_bill_of_materials_lists_locked_npm_packages_and_vendored_files_with_their_hashes():
    found = components()
    assert "requirements-L1" in found, "what the lock of Python's packages holds is kept"
    lock = json.loads((ROOT / "src/tollhouse/payments/chain/npm/package-lock.json").read_text("utf-8"))
    locked = {path.rpartition("node_modules/")[2]: each["version"] for path, each in lock["packages"].items() if path}
    by_name = {each["name"]: each for each in found.values()}
    assert {name: by_name[name]["version"] for name in locked} == locked
    assert all(len(by_name[name]["hashes"][0]["content"]) == 128 for name in locked)
    vendor = ROOT / "src/tollhouse/console/vendor"
    listed = {file["name"] for each in found.values() for file in each.get("components", ())}
    assert {path.relative_to(ROOT).as_posix() for path in vendor.glob("*/*.js")} <= listed


def test_bill_of_materials_is_made_by_locked_tools():
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert re.search(
        r"^\.venv/sbom\.stamp:.*requirements/sbom\.txt\n(\t@.*\n)*\t@\$\(PIP\) --require-hashes", makefile, re.MULTILINE
    )
    lock = (ROOT / "requirements/sbom.txt").read_text("utf-8")
    assert "\ncyclonedx-bom==" in lock
    assert not re.search(r"^(--index-url|--extra-index-url|--find-links)", lock, re.MULTILINE)
