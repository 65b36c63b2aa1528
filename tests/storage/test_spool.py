"""Values in a temporary file: by key, in groups, in order, and no room for them."""

import subprocess
import sys

from tollhouse.storage.spool import Spool

FULL = """
import resource
from tollhouse.storage.spool import Spool
spool = Spool(str)
resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))
try:
    for number in range(10_000):
        spool.add("a", "x" * 1_000)
except OSError as error:
    print("refused:", error)
"""


def test_values_come_by_key_in_groups_and_in_order():
    spool = Spool(dict[str, int])
    assert (len(spool), list(spool), list(spool.groups()), spool.get("a"), spool.has("a")) == (0, [], [], None, False)
    pairs = [("b", 1), ("a", 2), ("b", 3), ("", 4), ("a", 5)]
    for key, number in pairs:
        spool.add(key, {"number": number})
    assert [value["number"] for value in spool] == [1, 2, 3, 4, 5]
    assert [[value["number"] for value in group] for group in spool.groups()] == [[1, 3], [2, 5], [4]]
    assert (spool.get("a"), spool.get(""), spool.get("c")) == ({"number": 5}, {"number": 4}, None)
    assert (spool.has("a"), spool.has("c"), len(spool)) == (True, False, 5)
    assert {"number": 3} in spool
    assert {"number": 6} not in spool


def test_values_can_be_looked_up_and_added_while_groups_are_read():
    spool, other = Spool(int), Spool(int)
    for number in range(1_000):
        spool.add(str(number % 300), number)
    for group in spool.groups():
        assert spool.get(str(group[0])) == group[-1]
        other.add(str(group[0]), group[0])
    assert list(other) == list(range(300))


def test_no_room_is_an_error_of_the_system(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", FULL], env={"SQLITE_TMPDIR": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.partition(":")[0]) == (0, "refused"), done
    assert list(tmp_path.iterdir()) == []
