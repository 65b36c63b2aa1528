"""The image and the composition: what they copy exists, what they run is ours, what they set is a setting."""

import fnmatch
import os
import re
import shlex
import shutil
import subprocess
import tomllib
from typing import Any

import msgspec
import pytest
import yaml

from tests.deploy.command import DEPLOY, ROOT, understood
from tollhouse.cli.serve import STOP_WITHIN_SECONDS
from tollhouse.config import settings
from tollhouse.config.loader import from_environment
from tollhouse.config.section import declarations
from tollhouse.services import SECTIONS

DECLARED = declarations([*settings.SECTIONS, *SECTIONS])
NAMES = {f"TOLLHOUSE_{name.upper()}" for name in DECLARED}
LINES = re.sub(r"\\\n\s*", "", (DEPLOY / "Containerfile").read_text("utf-8")).splitlines()
STEPS = [line.split(maxsplit=1) for line in LINES if line and not line.startswith("#")]
FILES = ("compose.yaml", "compose.cluster.yaml")
OURS = ("server", "worker")


@pytest.fixture(params=FILES)
def compose(request) -> dict[str, Any]:
    return yaml.safe_load((DEPLOY / request.param).read_text("utf-8"))


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
    written = "".join((DEPLOY / file).read_text("utf-8") for file in FILES)
    defaults = dict(re.findall(r"\$\{(\w+_IMAGE):-([^}]+)\}", written))
    assert set(defaults) == set(pinned)
    assert all(re.fullmatch(rf"{image}@sha256:[0-9a-f]{{64}}", pinned[name]) for name, image in defaults.items())


@pytest.mark.parametrize("name", OURS)
def test_service_runs_a_command_of_ours(name, compose):
    command = compose["services"][name]["command"]
    assert command[0] == "tollhouse"
    understood(command[1:])


def test_server_leaves_the_work_to_the_worker(compose):
    commands = {name: understood(compose["services"][name]["command"][1:]) for name in OURS}
    assert (commands["server"][0], commands["server"][1]["worker"]) == ("serve", False)
    assert commands["worker"][0] == "worker"


@pytest.mark.parametrize("name", OURS)
def test_environment_names_settings_only(name, compose):
    service = compose["services"][name]
    assert service["environment"].pop("SQLITE_TMPDIR") == "/data"
    assert set(service["environment"]) <= NAMES
    found = from_environment(service["environment"], DECLARED)
    assert settings.Settings(**found).trusted_networks()


def test_proxy_is_believed_from_the_compositions_own_network(compose):
    (network,) = compose["networks"]["default"]["ipam"]["config"]
    assert compose["services"]["server"]["environment"]["TOLLHOUSE_TRUSTED_PROXIES"] == network["subnet"]


def test_example_environment_names_settings_only():
    text = (DEPLOY / "tollhouse.env.example").read_text("utf-8")
    named = re.findall(r"^#?(TOLLHOUSE_\w+)=(.*)$", text, re.MULTILINE)
    assert len(named) > 5
    assert {name for name, _ in named} <= NAMES
    active = dict(re.findall(r"^(TOLLHOUSE_\w+)=(.+)$", text, re.MULTILINE))
    assert settings.Settings(**from_environment(active, DECLARED)).agent_prefix == "example"


def test_every_container_ends_after_its_requests_and_may_write_where_the_server_does(compose):
    for name in OURS:
        service = compose["services"][name]
        assert int(service["stop_grace_period"].removesuffix("s")) > STOP_WITHIN_SECONDS
        # SQLite and Python put temporary files in /tmp.
        assert service["read_only"]
        assert service["tmpfs"] == ["/tmp"]  # noqa: S108 - in a container
        assert any(volume.endswith("/data") for volume in service["volumes"])


def test_secrets_come_from_files_that_are_not_there(compose):
    for name, service in compose["services"].items():
        file = service.get("env_file")
        assert (file is None) == (name in {"redis", "balancer"})
        if file:
            assert (DEPLOY / f"{file}.example").exists()
    assert "CHANGE-ME" not in yaml.safe_dump(compose)


def test_database_and_password_are_those_the_example_names(compose):
    url = re.search(
        r"^TOLLHOUSE_DATABASE_URL=(.*)$", (DEPLOY / "tollhouse.env.example").read_text("utf-8"), re.MULTILINE
    )
    postgres = compose["services"]["postgres"]["environment"]
    assert url
    assert url[1] == f"postgresql://{postgres['POSTGRES_USER']}:CHANGE-ME@postgres/{postgres['POSTGRES_DB']}"


def test_whoever_is_waited_for_tells_its_health(compose):
    for name in OURS:
        for needed, how in compose["services"][name]["depends_on"].items():
            assert how == {"condition": "service_healthy"}
            assert compose["services"][needed]["healthcheck"]["test"]


def test_volumes_are_declared(compose):
    mounted = [volume.split(":") for service in compose["services"].values() for volume in service["volumes"]]
    named = {source[0] for source in mounted if len(source) == 2}
    assert named == set(compose["volumes"])
    assert all((DEPLOY / source[0]).is_file() for source in mounted if len(source) == 3)
    assert ["/data"] in mounted or "data" in named


def test_proxies_lead_to_the_port_that_is_served():
    for file in ("Caddyfile", "nginx.conf"):
        assert "127.0.0.1:8000" in (DEPLOY / file).read_text("utf-8")
    assert "dynamic a server 8000 " in (DEPLOY / "Caddyfile.cluster").read_text("utf-8")


def test_proxies_end_idle_connections_before_the_server():
    for file in ("Caddyfile", "Caddyfile.cluster", "nginx.conf"):
        [seconds] = re.findall(r"^\s*keepalive(?:_timeout)? (\d+)s", (DEPLOY / file).read_text("utf-8"), re.MULTILINE)
        assert int(seconds) < settings.Settings().idle_timeout_seconds


def test_cluster_has_three_servers_two_workers_and_a_folder_for_each():
    services = yaml.safe_load((DEPLOY / "compose.cluster.yaml").read_text("utf-8"))["services"]
    assert {name: services[name]["deploy"]["replicas"] for name in OURS} == {"server": 3, "worker": 2}
    assert [services[name]["volumes"] for name in OURS] == [["/data"], ["/data"]]


def test_kubernetes_runs_our_commands_with_settings_that_exist():
    objects = list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text("utf-8")))
    assert {one["metadata"].get("namespace") for one in objects} == {"tollhouse"}
    named = {(one["kind"], one["metadata"]["name"]): one for one in objects}
    data = named[("ConfigMap", "tollhouse")]["data"]
    assert set(data) <= NAMES
    assert settings.Settings(**from_environment(data, DECLARED)).trusted_networks()
    for name, ends in (("server", {"worker": False}), ("worker", {})):
        pod = named[("Deployment", name)]["spec"]["template"]
        [container] = pod["spec"]["containers"]
        assert container["command"][0] == "tollhouse"
        command, given = understood(container["command"][1:])
        assert (command, {**given, **ends}) == ({"server": "serve", "worker": "worker"}[name], given)
        assert {each["name"] for each in container["volumeMounts"]} == {each["name"] for each in pod["spec"]["volumes"]}
        assert named[("Deployment", name)]["spec"]["selector"]["matchLabels"] == pod["metadata"]["labels"]
        assert pod["spec"]["securityContext"]["runAsUser"] == int(steps("USER")[0])
        assert {each["mountPath"] for each in container["volumeMounts"]} == {"/data", "/tmp"}  # noqa: S108 - as above
        assert all(("ConfigMap", each["configMapRef"]["name"]) in named for each in container["envFrom"][:1])
        before_stop = container.get("lifecycle", {"preStop": {"sleep": {"seconds": 0}}})["preStop"]["sleep"]["seconds"]
        assert pod["spec"]["terminationGracePeriodSeconds"] > STOP_WITHIN_SECONDS + before_stop
    server = named[("Deployment", "server")]["spec"]["template"]
    assert named[("Service", "tollhouse")]["spec"]["selector"] == server["metadata"]["labels"]
    assert server["spec"]["containers"][0]["ports"] == [{"name": "http", "containerPort": 8000}]
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert server["spec"]["containers"][0][probe]["httpGet"] == {"path": "/llms.txt", "port": "http"}
    [rule] = named[("Ingress", "tollhouse")]["spec"]["rules"]
    assert rule["http"]["paths"][0]["backend"]["service"] == {"name": "tollhouse", "port": {"name": "http"}}
    assert [port["name"] for port in named[("Service", "tollhouse")]["spec"]["ports"]] == ["http"]
    assert named[("PodDisruptionBudget", "server")]["spec"]["selector"]["matchLabels"] == server["metadata"]["labels"]
    scaled = named[("HorizontalPodAutoscaler", "server")]["spec"]
    assert (scaled["scaleTargetRef"]["kind"], scaled["scaleTargetRef"]["name"]) in named
    assert scaled["minReplicas"] == named[("Deployment", "server")]["spec"]["replicas"]
