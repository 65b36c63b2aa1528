"""What docs/proxy.md shows works: the start on a local chain, the payer, and the verification of the caller."""

import json
import os
import subprocess
import sys
import time

import pytest

from tests.guide.documents import ROOT, blocks
from tests.journeys.server import PROGRAM
from tests.proxy.stage import Toll, fastapi
from tollhouse.cli.local_payments import PAYER
from tollhouse.proxy.caller_header import CallerSigner

PAGE = ROOT / "docs" / "proxy.md"
KEY = "0123456789abcdef0123456789abcdef"


def programs(language):
    return [block.text for block in blocks(PAGE) if block.language == language]


@pytest.fixture(scope="module")
def toll(tmp_path_factory):
    """The command of the page, in front of a FastAPI application."""
    with fastapi(tmp_path_factory.mktemp("fastapi")) as url:
        command = ["proxy", "weather", "--upstream", url, "--price", "0.002", "--free-per-day", "0", "--local-chain"]
        toll = Toll(tmp_path_factory.mktemp("toll"), *command)
        yield toll
        toll.kill()


def test_command_prints_what_it_wrote_and_a_wallet_that_pays(toll, tmp_path):
    printed = toll.told()
    assert "Read 3 operations of" in printed
    assert 'url = "http://127.0.0.1' in printed
    assert "GET    /forecast/{city}: 0.002 USD a call" in printed
    assert f"export PAYER_KEY={PAYER.private_key}" in printed
    assert f"tollhouse pay '{toll.root}/forecast/Kiel'" in printed
    url = f"{toll.root}/forecast/Kiel?days=1"
    variables = {**os.environ, "PAYER_KEY": PAYER.private_key, "URL": url}
    paid = subprocess.run(
        [PROGRAM, "pay", url], capture_output=True, text=True, env=variables, cwd=tmp_path, timeout=60, check=False
    )
    assert "HTTP 200, 0.002 USD paid in transaction 0x" in paid.stderr, paid.stderr
    assert json.loads(paid.stdout)["city"] == "Kiel"
    official = subprocess.run(
        [sys.executable, "-c", programs("python")[0]],
        capture_output=True,
        text=True,
        env=variables,
        timeout=60,
        check=False,
    )
    assert official.stdout.startswith("200 "), official.stderr


def test_edited_declaration_is_served_on_a_local_chain(toll, tmp_path):
    text = (toll.home / "services" / "weather.toml").read_text()
    rule = '[routes."GET /forecast/{city}"]\naccess = "payer"\nusd_per_kilobyte = 1\nmax_usd = 0.05\n'
    (tmp_path / "services").mkdir()
    (tmp_path / "services" / "weather.toml").write_text(text.replace('openapi = "', '# "') + rule)
    edited = Toll(tmp_path, "serve", "weather", "--local-chain")
    try:
        variables = {**os.environ, "PAYER_KEY": PAYER.private_key}
        paid = subprocess.run(
            [PROGRAM, "pay", f"{edited.root}/forecast/Kiel"], capture_output=True, text=True, env=variables, timeout=60,
            check=False,
        )  # fmt: skip
    finally:
        edited.kill()
    assert " USD paid in transaction 0x" in paid.stderr, paid.stderr
    assert f"export PAYER_KEY={PAYER.private_key}" in edited.told()


def token(audience="weather"):
    """A caller's header, as the upstream gets it."""

    class Request:
        caller, payer, address, payment = None, "", "203.0.113.1", "allowance"

    return CallerSigner(KEY.encode(), audience).sign(Request, "req_1").decode()


def altered(text):
    return text[:-3] + ("AAA" if text[-3:] != "AAA" else "BBB")


def test_caller_is_verified_in_python():
    names = {}
    exec(programs("python")[1], names)  # noqa: S102 - the documentation's own program
    claims = names["read_caller"](token(), KEY, "weather")
    assert (claims["sub"], claims["kind"], claims["payment"]) == ("203.0.113.1", "address", "allowance")
    assert claims["exp"] > time.time()
    for wrong, key in ((altered(token()), KEY), (token(), "x" * 32), (token("other"), KEY)):
        with pytest.raises(ValueError, match=r"invalid|another service"):
            names["read_caller"](wrong, key, "weather")


def test_caller_is_verified_in_node(tmp_path):
    (tmp_path / "caller.mjs").write_text(programs("js")[0])
    (tmp_path / "run.mjs").write_text(
        'import { readCaller } from "./caller.mjs";\n'
        "const results = JSON.parse(process.argv[2]).map(([token, key]) => {\n"
        '  try { return readCaller(token, key, "weather").sub; } catch (error) { return "refused"; }\n});\n'
        "console.log(JSON.stringify(results));\n"
    )
    tokens = [(token(), KEY), (altered(token()), KEY), (token(), "x" * 32), (token("other"), KEY)]
    done = subprocess.run(
        ["node", "run.mjs", json.dumps(tokens)], cwd=tmp_path, capture_output=True, text=True, timeout=30, check=False
    )
    assert json.loads(done.stdout) == ["203.0.113.1", "refused", "refused", "refused"], done.stderr
