"""Commands and the main process of a server start without the code of the services."""

import json
import subprocess
import sys

import pytest

COMMANDS = [["keys", "list"], ["ledger", "show"], ["webhooks", "list"], ["settings"]]
# Runs a command, and writes the imported modules of services as the last line.
RUN = """
import json, sys
from tollhouse.cli.main import main
try:
    main()
except SystemExit as end:
    assert not end.code
print(json.dumps([name for name in sys.modules if name.startswith("tollhouse.services.")]))
"""
CHECK = """
import asyncio, json, sys
from tollhouse import app
from tollhouse.cli import serve
from tollhouse.services import load_settings
asyncio.run(app.check(load_settings(data_dir=sys.argv[1])))
print(json.dumps([name for name in sys.modules if name.startswith("tollhouse.services.")]))
"""


def service_modules(folder, code: str, *words: str) -> list[str]:
    """The modules of services that a new process imports, besides packages and their settings."""
    command = [sys.executable, "-c", code, *words]
    output = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout
    names = json.loads(output.splitlines()[-1])
    return [name for name in names if name.count(".") > 2 and not name.endswith(".settings")]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_command_of_the_operator_imports_no_service(tmp_path, words):
    assert service_modules(tmp_path, RUN, *words, "--data-dir", str(tmp_path)) == []


def test_checks_of_the_main_process_import_no_service(tmp_path):
    assert service_modules(tmp_path, CHECK, str(tmp_path)) == []
