"""Packages of npm that tests need, installed once beside this Python; no script of theirs is run."""

import fcntl
import shutil
import subprocess
import sys
from pathlib import Path

# Say what to install rather than pass without having tested.
WITHOUT_NPM = "these tests need Node.js 20 or newer with npm on the PATH (apt install nodejs npm, brew install node)"
INSTALL_SECONDS = 110


def node_modules_of(listed: Path, name: str) -> Path:
    """The packages that the folder's `package-lock.json` lists, by their hashes; `name` tells folders apart."""
    npm = shutil.which("npm")
    assert npm, WITHOUT_NPM
    home = Path(sys.prefix) / f"npm-{name}"
    home.mkdir(exist_ok=True)
    with (home / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _install(npm, listed, home)
    return home / "node_modules"


def _install(npm: str, listed: Path, home: Path) -> None:
    stamp, wanted = home / "installed.json", (listed / "package-lock.json").read_bytes()
    if stamp.exists() and stamp.read_bytes() == wanted:
        return
    for name in ("package.json", "package-lock.json"):
        shutil.copy(listed / name, home)
    command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    done = subprocess.run(command, cwd=home, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    stamp.write_bytes(wanted)
