import subprocess
import sys

import pytest

from tollhouse import failpoints

PASSES = """
import atexit, sys
from tollhouse import failpoints

atexit.register(print, "went home", flush=True)
failpoints.arm(sys.argv[1])
for number in range(1, 6):
    print(number, flush=True)
    failpoints.reach("door")
    failpoints.reach("window")
"""


def passed(armed: str) -> tuple[int, list[str]]:
    done = subprocess.run([sys.executable, "-c", PASSES, armed], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.split("\n")[:-1]


def test_process_dies_the_first_time_without_going_home():
    assert passed("door") == (137, ["1"])


def test_process_dies_the_third_time():
    assert passed("window:3") == (137, ["1", "2", "3"])


@pytest.mark.parametrize("armed", ["", "roof", "door:6"])
def test_process_lives_where_nothing_is_armed(armed):
    assert passed(armed) == (0, ["1", "2", "3", "4", "5", "went home"])


@pytest.mark.parametrize("wrong", ["door:0", "door:-1", "door:x", "door:1.5"])
def test_count_that_makes_no_sense_is_refused(wrong):
    with pytest.raises(ValueError, match=r"door|invalid literal"):
        failpoints.arm(wrong)
