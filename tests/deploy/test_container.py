"""The image and the composition: what they copy exists, what they run is ours, what they set is a setting."""

import fnmatch
import os
import re
import shlex
import shutil
import subprocess
import tomllib

import msgspec
import pytest
import yaml

from tests.deploy.command import DEPLOY, ROOT, understood
from tollhouse.config import settings
from tollhouse.config.loader import from_environment
from tollhouse.config.section import declarations
from tollhouse.services import SECTIONS

DECLARED = declarations([*settings.SECTIONS, *SECTIONS])
NAMES = {f"TOLLHOUSE_{name.upper()}" for name in DECLARED}
LINES = re.sub(r"\\\n\s*", "", (DEPLOY / "Containerfile").read_text("utf-8")).splitlines()
STEPS = [line.split(maxsplit=1) for line in LINES if line and not line.startswith("#")]
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))
OURS = ("server", "worker")


def steps(name: str) -> list[str]:
    return [value for found, value in STEPS if found == name]


def copied() -> list[str]:
    """What is copied from the repository."""
    from_here = [step for step in steps("COPY") if not step.startswith("--from")]
    arguments = dict(step.split("=", 1) for step in steps("ARG"))
    sources = [source for step in from_here for source in step.split()[:-1]]
    return [re.sub(r"\$\{(\w+)\}", lambda found: arguments[found[1]], source) for source in sources]


def test_image_is_built_of_files_that_exist():
    assert {"src", "docs", "pyproject.toml", "requirements/serve.txt"} <= set(copied())
    assert [source for source in copied() if not (ROOT / source).exists()] == []
    # The wheel that is built in it takes these into the package.
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    assert set(project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]) <= set(copied())


def test_nothing_the_image_needs_is_ignored():
    lines = (DEPLOY / "Containerfile.dockerignore").read_text("utf-8").splitlines()
    kept = [line.removeprefix("!") for line in lines if line.startswith("!")]
    assert "*" in lines
    assert [
        source for source in copied() if not any(fnmatch.fnmatch(source.split("/")[0], name) for name in kept)
    ] == []


def test_packages_are_installed_as_the_makefile_installs_them():
    makefile = (ROOT / "Makefile").read_text("utf-8")
    (pip,) = re.findall(r"^PIP := \$\(BIN\)/python (.*)$", makefile, re.MULTILINE)
    locked, own = (step for step in steps("RUN") if " -m pip " in step)
    for step in (locked, own):
        assert step.startswith(f"/opt/tollhouse/bin/python {pip} --no-cache-dir ")
    assert "$(PIP) --require-hashes --requirement requirements/serve.txt" in makefile
    assert locked.endswith(" --require-hashes --requirement requirements.txt")
    assert "$(PIP) --no-deps --no-build-isolation --editable ." in makefile
    assert own.endswith(" --no-deps --no-build-isolation .")


def test_image_runs_our_server_without_root_over_a_volume():
    command = msgspec.json.decode(steps("CMD")[-1])
    assert command[0] == "tollhouse"
    name, given = understood(command[1:])
    assert (name, given["host"]) == ("serve", "0.0.0.0")  # noqa: S104 - inside a container
    assert steps("USER") == ["10001"]
    assert steps("VOLUME") == ["/data"]
    (environment,) = steps("ENV")
    named = dict(part.split("=", 1) for part in shlex.split(environment))
    assert set(named) - NAMES == {"PATH"}
    assert named["TOLLHOUSE_DATA_DIR"] == "/data"


def test_health_is_asked_of_an_address_that_the_server_has(tmp_path):
    (check,) = steps("HEALTHCHECK")
    assert "http://127.0.0.1:8000/llms.txt" in check
    assert understood(["serve"])[1].get("port", 8000) == 8000
    compile(msgspec.json.decode(check[check.index("[") :])[2], "healthcheck", "exec")


def test_both_stages_are_the_same_python():
    assert {step.split()[0] for step in steps("FROM")} == {"${PYTHON_IMAGE}"}
    assert "PYTHON_IMAGE=python:3.12-slim" in steps("ARG")


def test_images_can_be_pinned_by_digest(tmp_path):
    """The script asks a registry; here a program of the same name answers for it."""
    for name in ("pin_images", "compose.yaml"):
        shutil.copy(DEPLOY / name, tmp_path)
    registry = tmp_path / "docker"
    registry.write_text(
        '#!/bin/sh\nfor image; do :; done\nprintf "sha256:%s" "$(printf %s "$image" | sha256sum | cut -c1-64)"\n'
    )
    registry.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    subprocess.run([tmp_path / "pin_images"], env={"PATH": path}, check=True, capture_output=True)
    pinned = dict(line.split("=") for line in (tmp_path / ".env").read_text("utf-8").splitlines())
    compose = (DEPLOY / "compose.yaml").read_text("utf-8")
    defaults = dict(re.findall(r"\$\{(\w+_IMAGE):-([^}]+)\}", compose))
    assert set(defaults) == set(pinned)
    assert all(re.fullmatch(rf"{image}@sha256:[0-9a-f]{{64}}", pinned[name]) for name, image in defaults.items())


@pytest.mark.parametrize("name", OURS)
def test_service_runs_a_command_of_ours(name):
    command = COMPOSE["services"][name]["command"]
    assert command[0] == "tollhouse"
    understood(command[1:])


def test_server_leaves_the_work_to_the_worker():
    commands = {name: understood(COMPOSE["services"][name]["command"][1:]) for name in OURS}
    assert (commands["server"][0], commands["server"][1]["worker"]) == ("serve", False)
    assert commands["worker"][0] == "worker"


@pytest.mark.parametrize("name", OURS)
def test_environment_names_settings_only(name):
    service = COMPOSE["services"][name]
    assert set(service["environment"]) <= NAMES
    found = from_environment(service["environment"], DECLARED)
    assert settings.Settings(**found).trusted_networks()


def test_proxy_is_believed_from_the_compositions_own_network():
    (network,) = COMPOSE["networks"]["default"]["ipam"]["config"]
    assert COMPOSE["services"]["server"]["environment"]["TOLLHOUSE_TRUSTED_PROXIES"] == network["subnet"]


def test_example_environment_names_settings_only():
    text = (DEPLOY / "tollhouse.env.example").read_text("utf-8")
    named = re.findall(r"^#?(TOLLHOUSE_\w+)=(.*)$", text, re.MULTILINE)
    assert len(named) > 5
    assert {name for name, _ in named} <= NAMES


def test_secrets_come_from_files_that_are_not_there():
    for name, service in COMPOSE["services"].items():
        file = service.get("env_file")
        assert (file is None) == (name == "redis")
        if file:
            assert (DEPLOY / f"{file}.example").exists()
    assert "CHANGE-ME" not in (DEPLOY / "compose.yaml").read_text("utf-8")


def test_database_and_password_are_those_the_example_names():
    url = re.search(
        r"^TOLLHOUSE_DATABASE_URL=(.*)$", (DEPLOY / "tollhouse.env.example").read_text("utf-8"), re.MULTILINE
    )
    postgres = COMPOSE["services"]["postgres"]["environment"]
    assert url
    assert url[1] == f"postgresql://{postgres['POSTGRES_USER']}:CHANGE-ME@postgres/{postgres['POSTGRES_DB']}"


def test_whoever_is_waited_for_tells_its_health():
    for name in OURS:
        for needed, how in COMPOSE["services"][name]["depends_on"].items():
            assert how == {"condition": "service_healthy"}
            assert COMPOSE["services"][needed]["healthcheck"]["test"]


def test_volumes_are_declared():
    used = {volume.split(":")[0] for service in COMPOSE["services"].values() for volume in service["volumes"]}
    assert used == set(COMPOSE["volumes"])


def test_proxies_lead_to_the_port_that_is_served():
    for file in ("Caddyfile", "nginx.conf"):
        assert "127.0.0.1:8000" in (DEPLOY / file).read_text("utf-8")
