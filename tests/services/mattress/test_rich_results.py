"""The JSON-LD before a validator of what schema.org knows and Google's rich results ask (npm, run offline)."""

import copy
import fcntl
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.services.mattress.vocabulary import graph

LISTED = Path(__file__).parent / "npm"


@pytest.fixture(scope="module")
def validate():
    """What Adobe's validator has against things: it is installed once beside this Python; no script of its is run."""
    npm = shutil.which("npm")
    assert npm, "these tests need Node.js 20 or newer with npm on the PATH (apt install npm, brew install node)"
    home = Path(sys.prefix) / "npm-mattress"
    home.mkdir(exist_ok=True)
    with (home / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _install(npm, home)

    def run(*things: dict[str, Any]) -> list[dict[str, Any]]:
        asked = json.dumps({"vocabulary": graph(), "things": things})
        done = subprocess.run(
            ["node", home / "validate.mjs"], input=asked, capture_output=True, text=True, timeout=60, check=True
        )
        return json.loads(done.stdout)

    return run


def _install(npm, home) -> None:
    installed = {name: (LISTED / name).read_bytes() for name in ("package.json", "package-lock.json", "validate.mjs")}
    if all((home / name).is_file() and (home / name).read_bytes() == each for name, each in installed.items()):
        return
    for name in ("package.json", "validate.mjs", "package-lock.json"):
        shutil.copy(LISTED / name, home)
    command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    done = subprocess.run(command, cwd=home, capture_output=True, text=True, timeout=110, check=False)
    if done.returncode:
        (home / "package-lock.json").unlink()
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def listed(mattress):
    return mattress.get("/api/products.jsonld").json()["itemListElement"]


def errors(issues):
    return [(issue["type"], issue["message"]) for issue in issues if issue["severity"] == "ERROR"]


def test_no_product_has_an_error(validate, listed):
    issues = validate(*listed)
    assert errors(issues) == []
    # What a retailer does not tell is left out, not made up: reviews, numbers of the trade, how long a price holds.
    assert {'Missing field "review" (optional)', 'Missing field "priceValidUntil" (optional)'} <= {
        issue["message"] for issue in issues
    }
    assert len({issue["thing"] for issue in issues}) == len(listed) == 165


def test_what_is_wrong_would_be_seen(validate, listed):
    spoilt = {
        "without a name": lambda product: product.pop("name"),
        "without an offer": lambda product: product.pop("offers"),
        "without a price": lambda product: product["offers"].pop("price"),
        "with a word that schema.org does not know": lambda product: product.update(firmness=7),
    }
    right = next(each for each in listed if "priceSpecification" not in each["item"]["offers"])
    things = [copy.deepcopy(right) for _ in spoilt]
    for thing, spoil in zip(things, spoilt.values(), strict=True):
        spoil(thing["item"])
    usual, *others = [
        [(issue["type"], issue["message"]) for issue in issues] for issues in by_thing(validate(right, *things))
    ]
    for name, issues in zip(spoilt, others, strict=True):
        assert set(issues) - set(usual), f"a product {name} is not distinguished from a valid one"


def by_thing(issues):
    things = {issue["thing"] for issue in issues}
    return [[issue for issue in issues if issue["thing"] == thing] for thing in sorted(things)]
