"""Crashes in calls, payments and deposits, and deaths of an upstream. `schedules` plays as many as it is asked for."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.payments.crashes.schedules import main
from tests.servers.processes import run

ROOT = Path(__file__).parents[3]
SECONDS = 300.0


def play(*arguments: str) -> subprocess.CompletedProcess[str]:
    return run(main, arguments, cwd=ROOT, timeout=SECONDS)


@pytest.mark.parametrize("database", [(), ("--postgres",)], ids=["sqlite", "postgres"])
def test_money_is_right_after_crashes_of_the_server_and_its_upstream(database):
    done = play("--first", "2", "--seeds", "1", *database)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 schedules" in done.stdout
    assert " 0 crashes" not in done.stdout, "no process died: these seeds prove nothing"
    assert " 0 deaths" not in done.stdout, "the upstream never died: these seeds prove nothing"


@pytest.mark.timeout(320)
@pytest.mark.parametrize(
    ("mutant", "first", "shows"),
    [("deposits", 1, "credited"), ("settlements", 2, "seller holds|charged 1 times"), ("cuts", 8, "charged 1 times")],
)
def test_server_that_forgets_a_rule_is_found_out(mutant, first, shows):
    # Which payments a crash cuts depends on the machine's speed too: begin with one that usually shows the fault, and
    # play until one does.
    done = play("--first", str(first), "--seeds", "40", "--mutant", mutant)
    assert done.returncode == 1, done.stderr
    assert re.search(shows, done.stdout), done.stdout
