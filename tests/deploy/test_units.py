"""The systemd units: nothing in them that systemd, or our own command line, does not know."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deploy.command import DEPLOY, ROOT, understood
from tollhouse.config import loader
from tollhouse.services import SECTIONS

UNITS = sorted([*DEPLOY.glob("*.service"), *DEPLOY.glob("*.timer")])
SERVERS = ("tollhouse.service", "tollhouse-worker.service")
# Of systemd.unit(5), systemd.service(5), systemd.exec(5), systemd.kill(5), systemd.timer(5): those we have a use for.
KNOWN = {
    "Unit": {"Description", "After", "Wants"},
    "Service": {
        "AmbientCapabilities", "CapabilityBoundingSet", "ExecStart", "ExecStartPost", "Group", "KillMode",
        "LimitNOFILE", "LockPersonality", "MemoryDenyWriteExecute", "NoNewPrivileges", "PrivateDevices",
        "PrivateNetwork", "PrivateTmp", "ProtectClock", "ProtectControlGroups", "ProtectHome",
        "ProtectHostname", "ProtectKernelLogs", "ProtectKernelModules", "ProtectKernelTunables", "ProtectProc",
        "ProtectSystem", "RemoveIPC", "Restart", "RestartSec", "RestrictAddressFamilies", "RestrictNamespaces",
        "RestrictRealtime", "RestrictSUIDSGID", "StateDirectory", "StateDirectoryMode",
        "SystemCallArchitectures", "SystemCallErrorNumber", "SystemCallFilter", "TimeoutStopSec", "Type",
        "UMask", "User", "WorkingDirectory",
    },
    "Timer": {"OnCalendar", "Persistent", "RandomizedDelaySec"},
    "Install": {"WantedBy"},
}  # fmt: skip


def directives(unit: Path) -> list[tuple[str, str, str]]:
    """Section, name and value of each line that has one."""
    found, section = [], ""
    for line in unit.read_text("utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        if heading := re.fullmatch(r"\[(\w+)\]", line):
            section = heading[1]
            continue
        name, is_one, value = line.partition("=")
        assert is_one, f"{unit.name}: {line}"
        found.append((section, name, value))
    return found


def values(unit: str, name: str) -> list[str]:
    return [value for _, found, value in directives(DEPLOY / unit) if found == name]


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_unit_has_only_directives_that_systemd_knows(unit):
    assert [(section, name) for section, name, _ in directives(unit) if name not in KNOWN[section]] == []


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="this machine has no systemd to ask")
def test_systemd_itself_finds_nothing_wrong(tmp_path):
    """With our program in the place where an installation has it: systemd looks whether it can be started."""
    for unit in UNITS:
        text = unit.read_text("utf-8").replace(
            "/opt/tollhouse/bin/tollhouse", f"{Path(sys.executable).parent}/tollhouse"
        )
        (tmp_path / unit.name).write_text(text)
    checked = subprocess.run(
        ["systemd-analyze", "verify", *map(str, sorted(tmp_path.iterdir()))],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (checked.returncode, checked.stderr) == (0, "")


@pytest.mark.parametrize("unit", ["tollhouse.service", "tollhouse-worker.service", "tollhouse-backup.service"])
def test_started_command_is_one_of_ours_with_options_it_has(unit):
    (line,) = values(unit, "ExecStart")
    words = shlex.split(line.replace("$$", "$").replace("%%", "%"))
    if words[0] == "/bin/sh":
        words = shlex.split(words[2].removeprefix("exec "))
    assert words[0] == "/opt/tollhouse/bin/tollhouse"
    command, given = understood(words[1:])
    assert command == {"tollhouse.service": "serve"}.get(unit, unit.removesuffix(".service").removeprefix("tollhouse-"))
    assert given["common"].config == "/etc/tollhouse/tollhouse.toml"


def test_server_leaves_the_work_to_the_worker():
    _, given = understood(shlex.split(values("tollhouse.service", "ExecStart")[0])[1:])
    assert given["worker"] is False


@pytest.mark.parametrize("unit", SERVERS)
def test_service_may_write_its_data_and_nothing_else(unit):
    assert values(unit, "ProtectSystem") == ["strict"]
    assert values(unit, "StateDirectory") == ["tollhouse"]
    assert values(unit, "User") == ["tollhouse"]
    assert values(unit, "CapabilityBoundingSet") == [""]


def test_stopping_waits_for_requests_in_flight():
    from tollhouse.cli.serve import STOP_WITHIN_SECONDS

    assert int(values("tollhouse.service", "TimeoutStopSec")[0]) > STOP_WITHIN_SECONDS


def test_timer_starts_the_backup():
    assert (DEPLOY / "tollhouse-backup.service").exists()
    assert values("tollhouse-backup.timer", "OnCalendar") == ["hourly"]


def test_example_of_the_settings_file_is_one(tmp_path):
    example = (DEPLOY / "tollhouse.toml.example").read_text("utf-8")
    every_line = re.sub(r"^#(?=\w+ = )", "", example, flags=re.MULTILINE)
    assert every_line != example
    for number, text in enumerate((example, every_line)):
        file = tmp_path / f"{number}.toml"
        file.write_text(text)
        assert loader.load(str(file), SECTIONS).data_dir == "/var/lib/tollhouse"


def test_secrets_are_kept_out_of_git():
    ignored = (ROOT / ".gitignore").read_text("utf-8").splitlines()
    assert {"/deploy/*.env", "tollhouse.toml"} <= set(ignored)
