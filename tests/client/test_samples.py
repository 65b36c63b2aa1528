"""The programs of docs/agents-client.md, run as they stand there."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from eth_account import Account

PAGE = Path(__file__).parents[2] / "docs" / "agents-client.md"
KEY = "0x" + "11" * 32
ADDRESS = Account.from_key(KEY).address


def program(language, importing):
    """The page's one program in this language that imports this."""
    blocks = re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    (found,) = [block for block in blocks if importing in block]
    return found


def run(command, url, folder):
    environment = os.environ | {"TOLLHOUSE_URL": url, "AGENT_PRIVATE_KEY": KEY}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_python_sample_is_let_in(checking_url, tmp_path):
    (tmp_path / "sample.py").write_text(program("python", "from eth_account import"))
    answers = [json.loads(run([sys.executable, "sample.py"], checking_url, tmp_path)) for _ in range(2)]
    assert [answer["signed_by"] for answer in answers] == [ADDRESS, ADDRESS]
    assert answers[0]["nonce"] != answers[1]["nonce"]


def test_javascript_sample_is_let_in(checking_url, node_modules, tmp_path):
    (tmp_path / "node_modules").symlink_to(node_modules)
    (tmp_path / "sample.mjs").write_text(program("js", "viem/accounts"))
    answers = [json.loads(run(["node", "sample.mjs"], checking_url, tmp_path)) for _ in range(2)]
    assert [answer["signed_by"] for answer in answers] == [ADDRESS, ADDRESS]
    assert answers[0]["nonce"] != answers[1]["nonce"]


def test_server_of_these_tests_refuses_what_nobody_signed(checking_url, tmp_path):
    wrong = program("python", "from eth_account import").replace("service:{path}", "service:/elsewhere{path}")
    (tmp_path / "sample.py").write_text(wrong)
    with pytest.raises(AssertionError, match="401"):
        run([sys.executable, "sample.py"], checking_url, tmp_path)


def test_lock_file_names_no_registry_and_every_hash():
    lock = json.loads((Path(__file__).parent / "npm" / "package-lock.json").read_text("utf-8"))
    packages = [package for name, package in lock["packages"].items() if name]
    assert packages
    assert all("resolved" not in package and package["integrity"].startswith("sha512-") for package in packages)
