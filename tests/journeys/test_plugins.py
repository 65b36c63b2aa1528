"""Services of other packages: written by `tollhouse new-service`, installed, served; and refused with one line."""

import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import httpx2
import pytest

from tests.journeys.command import run_command
from tests.journeys.server import RUN_SECONDS, Program, environment, free_port, poll
from tollhouse.config.settings import Settings
from tollhouse.services import check_plugins, every_service, load_settings, plugins
from tollhouse.services.plugins import PluginError

PYTHON = sys.executable


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with the package `sea-ice`, as the command writes it."""
    folder = tmp_path_factory.mktemp("plugins")
    written = run("new-service", "sea-ice", cwd=folder)
    assert written.returncode == 0, written.stderr
    assert "tollhouse serve sea-ice" in written.stdout
    return folder


@pytest.fixture(scope="module")
def installed(home, tmp_path_factory):
    """The folder in which pip installed the package, without a registry."""
    target = tmp_path_factory.mktemp("installed")
    pip = [PYTHON, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*pip, "--target", str(target), str(home / "tollhouse-sea-ice")], check=True)
    return target


def run(*words: str, cwd, packages=(), **settings: object) -> subprocess.CompletedProcess[str]:
    """A command to its end, with these folders of packages."""
    return run_command(words, cwd, environment(**settings), RUN_SECONDS, packages)


def export(folder) -> str:
    """The shell's command that adds a folder of packages."""
    return f"export PYTHONPATH={shlex.quote(str(folder))}; "


def test_written_package_passes_its_own_test(home):
    package = home / "tollhouse-sea-ice"
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:schemathesis", "-W", "ignore::pytest.PytestWarning"]
    tested = subprocess.run(
        [PYTHON, "-m", "pytest", *options], cwd=package, capture_output=True, text=True, check=False
    )
    assert tested.returncode == 0, tested.stdout
    assert "3 passed" in tested.stdout


def test_written_package_is_formatted_and_depends_on_nothing_else(home):
    package = home / "tollhouse-sea-ice"
    assert tomllib.loads((package / "pyproject.toml").read_text())["project"]["dependencies"] == ["tollhouse"]
    assert run("new-service", "sea-ice", cwd=home).stderr == "tollhouse: tollhouse-sea-ice already exists\n"
    assert "is taken by the server itself" in run("new-service", "mattress", cwd=home).stderr
    assert run("new-service", "tides", "--folder", "elsewhere/tides", cwd=home).returncode == 0
    assert (home / "elsewhere" / "tides" / "src" / "tollhouse_tides" / "service.py").exists()


def test_installed_service_is_served_beside_the_others_with_its_settings(start_server, installed):
    server = start_server(limits=export(installed), sea_ice_note="thin")
    with httpx2.Client(base_url=server.root, timeout=30) as client:
        assert "sea-ice" in [one["name"] for one in client.get("/").json()["services"]]
        answer = client.get("/sea-ice/api/time?offset_hours=2")
        assert (answer.status_code, answer.json()["note"]) == (200, "thin")
        assert answer.headers["x-ratelimit-limit"] == "50"
        document = client.get("/sea-ice/api/openapi.json").json()
        assert document["paths"]["/api/time"]["get"]["operationId"] == "getTime"
        assert client.get("/defense/health").status_code == 200


def test_installed_service_is_served_alone_by_its_name(installed, tmp_path):
    port = free_port()
    program = Program(["serve", "sea-ice", "--port", port], tmp_path, {}, export(installed))
    try:
        root = f"http://127.0.0.1:{port}"
        assert poll(lambda: httpx2.get(f"{root}/health").json()["status"] == "ok", 60)
        assert httpx2.get(f"{root}/api/time").status_code == 200
    finally:
        assert program.stop() == 0


def test_settings_of_an_installed_package_are_known(installed, tmp_path):
    described = run("settings", "--describe", cwd=tmp_path, packages=[installed])
    assert "sea_ice_note" in described.stdout
    unknown = run("settings", cwd=tmp_path, sea_ice_note="thin")
    assert unknown.returncode == 2
    assert "sea_ice_note" in unknown.stderr


def package(folder: Path, name: str, services: str = "", settings: str = "", code: str = "") -> Path:
    """A folder with an installed package of these entry points, and the module `tide_code`."""
    about = folder / f"{name.replace('-', '_')}-1.2.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n")
    groups = {"tollhouse.services": services, "tollhouse.settings": settings}
    (about / "entry_points.txt").write_text("".join(f"[{group}]\n{lines}\n" for group, lines in groups.items()))
    (folder / "tide_code.py").write_text(code)
    return folder


SECTION = """
from dataclasses import dataclass
from tollhouse import Section, setting

@dataclass(frozen=True, kw_only=True)
class TideSettings(Section):
    \"\"\"Tides.\"\"\"

    public_url: str = setting("", "The same name as another")
"""

REFUSED = [
    ("tides = absent_module:open_it", "", "", "tides: absent_module:open_it cannot be imported: ModuleNotFoundError"),
    ("tides = tide_code:open_tide", "", "x = 1", "has no attribute 'open_tide'"),
    ("mattress = tide_code:open_it", "", "", "mattress: the name mattress is taken by the server itself"),
    ("Tides = tide_code:open_it", "", "", "Tides: a service's name is 1 to 28 lower-case letters"),
    ("", "tides = tide_code:TideSettings", SECTION, "tides: the setting public_url is taken"),
    ("", "tides = tide_code:x", "x = 1", "tides: tide_code:x is not a dataclass that inherits tollhouse.Section"),
]


@pytest.fixture
def new_packages(monkeypatch):
    """Packages are read once in a process: forget them, before and after."""
    plugins.entry_points_of.cache_clear()
    yield monkeypatch
    monkeypatch.undo()
    plugins.entry_points_of.cache_clear()
    sys.modules.pop("tide_code", None)


@pytest.mark.parametrize(("services", "settings", "code", "message"), REFUSED, ids=[row[3][:20] for row in REFUSED])
def test_package_that_cannot_be_used_is_named_with_the_reason(
    new_packages, tmp_path, services, settings, code, message
):
    new_packages.syspath_prepend(package(tmp_path, "tides", services, settings, code))
    with pytest.raises(PluginError) as refused:
        check_plugins(every_service(load_settings()))
    assert str(refused.value).startswith("package tides 1.2, service ")
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_package_that_cannot_be_used_stops_the_start_with_one_line(tmp_path):
    folder = package(tmp_path / "packages", "tides", "tides = absent_module:open_it")
    refused = run("serve", cwd=tmp_path, packages=[folder])
    assert refused.returncode == 1
    assert refused.stderr.startswith("tollhouse: package tides 1.2, service tides: absent_module:open_it cannot be imp")
    assert len(refused.stderr.splitlines()) == 1


def test_two_packages_with_one_name_are_refused(new_packages, tmp_path):
    new_packages.syspath_prepend(package(tmp_path / "first", "tides", "tides = tide_code:open_it"))
    new_packages.syspath_prepend(package(tmp_path / "second", "other-tides", "tides = tide_code:open_it"))
    with pytest.raises(PluginError, match="the packages other-tides and tides both add tides: uninstall one of them"):
        every_service(Settings())


def test_table_cannot_be_called_like_an_installed_service(installed, tmp_path):
    (tmp_path / "services").mkdir()
    (tmp_path / "services" / "sea-ice.toml").write_text('title = "Sea ice"\n')
    refused = run("serve", cwd=tmp_path, packages=[installed])
    assert "the name sea-ice is taken" in refused.stderr
