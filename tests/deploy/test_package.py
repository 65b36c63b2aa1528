"""The wheel holds all that the server needs, and a command that needs an extra says which."""

import json
import subprocess
import sys
from pathlib import PurePosixPath
from zipfile import ZipFile

import pytest

from tests.deploy.command import ROOT

BUILD = "import sys; from hatchling.build import build_wheel; build_wheel(sys.argv[1])"
EXTRAS = {"asyncpg": "postgres", "redis": "redis", "stripe": "stripe", "openai": "chat", "pyarrow": "parquet",
          "openpyxl": "xlsx", "opentelemetry": "otlp"}  # fmt: skip
STRIPE = {"stripe_secret_key": "sk_test", "stripe_webhook_secret": "whsec_test", "stripe_prices": "price_a=pro"}
COMMANDS = {
    "postgres": (["keys", "list"], {"database_url": "postgresql://u:p@127.0.0.1:1/x"}),
    "redis": (["serve"], {"redis_url": "redis://127.0.0.1:1"}),
    "stripe": (["keys", "list"], STRIPE),
    "chat": (["serve"], {"llm_base_url": "http://127.0.0.1:1/v1"}),
    "otlp": (["serve"], {"otlp_url": "http://127.0.0.1:1"}),
    "parquet": (["new", "shop", "--from", "table.parquet"], {}),
    "xlsx": (["new", "shop", "--from", "table.xlsx"], {}),
}
# Runs every command in one process in which no extra is installed.
RUN = """
import contextlib, io, json, os, sys
given = json.loads(sys.argv[1])
sys.modules.update(dict.fromkeys(given["missing"]))
from tollhouse.cli.main import main
results = {}
for extra, (words, settings) in given["commands"].items():
    variables = {f"TOLLHOUSE_{name.upper()}": value for name, value in settings.items()}
    os.environ.update(variables)
    sys.argv = ["tollhouse", *words]
    output = io.StringIO()
    with contextlib.redirect_stderr(output):
        try:
            main()
        except SystemExit as end:
            results[extra] = end.code, output.getvalue()
    for name in variables:
        del os.environ[name]
print(json.dumps(results))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The names of the files in the wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run([sys.executable, "-c", BUILD, str(folder)], cwd=ROOT, check=True, capture_output=True)
    (file,) = folder.glob("tollhouse-*.whl")
    return set(ZipFile(file).namelist())


@pytest.fixture(scope="module")
def without_extras(tmp_path_factory):
    """By extra: the exit code and standard error of a command that needs it, where it is not installed."""
    folder = tmp_path_factory.mktemp("without-extras")
    for name in ("table.parquet", "table.xlsx"):
        (folder / name).write_bytes(b"no table")
    given = json.dumps({"missing": list(EXTRAS), "commands": COMMANDS})
    run = subprocess.run([sys.executable, "-c", RUN, given], cwd=folder, check=True, capture_output=True, text=True)
    return json.loads(run.stdout.splitlines()[-1])


def tracked(*folders: str) -> list[str]:
    names = subprocess.run(["git", "ls-files", *folders], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [name for name in names.splitlines() if (ROOT / name).exists()]


def test_wheel_holds_every_file_of_the_package_and_every_page(wheel):
    expected = {name.removeprefix("src/") for name in tracked("src/tollhouse")}
    expected |= {f"tollhouse/{name}" for name in tracked("docs")} | {"tollhouse/docs/changelog.md"}
    assert len(expected) > 500
    assert expected - wheel == set()


def test_wheel_holds_nothing_else(wheel):
    shipped = {name for name in wheel if ".dist-info/" not in name}
    expected = {name.removeprefix("src/") for name in tracked("src/tollhouse")}
    assert {name for name in shipped - expected if not name.startswith("tollhouse/docs/")} == set()
    assert {PurePosixPath(name).parts[0] for name in shipped} == {"tollhouse"}


@pytest.mark.parametrize("name", ["py.typed", "storage/migrations/versions/0001_keys_usage_events.py",
    "storage/migrations/ledger/versions/0001_ledger.py", "docs/settings.md",
    "services/defense/data/recording/prepared.msgpack.zst", "console/vendor/world-atlas/LICENSE"])  # fmt: skip
def test_wheel_holds(wheel, name):
    assert f"tollhouse/{name}" in wheel


def test_wheel_holds_the_npm_manifest_of_the_local_chain(wheel):
    assert [name for name in wheel if name.endswith("/npm/package-lock.json")]


@pytest.mark.parametrize("extra", COMMANDS)
def test_command_without_its_extra_says_in_one_line_what_to_install(without_extras, extra):
    code, output = without_extras[extra]
    lines = [line for line in output.splitlines() if not line.startswith("{")]
    assert code in {1, 2}
    assert len(lines) == 1, output
    assert f"pip install 'tollhouse[{extra}]'" in lines[0]
