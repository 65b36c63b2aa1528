"""Schemathesis, a stranger's property-based tester, reads each description and finds nothing that is not as it says.

Here it looks for seconds, with every check it has. A longer look at a server of one's own:
`st run URL/api/openapi.json --url URL -n 100`.
"""

import asyncio
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
import pytest_asyncio

from tests.fakes.model import fake_model
from tests.fakes.stripe import PRICES, SECRET_KEY, WEBHOOK_SECRET, stripe
from tests.journeys.server import Server
from tollhouse.payments.chain.local_chain import ACCOUNTS, LocalChain
from tollhouse.services import EVERY_SERVICE, SERVICES

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

PROGRAM = Path(sys.executable).parent / "st"
EXAMPLES = 3
SEED = 20_201_115
PLENTY = 10_000_000
UNLIMITED = {"free_per_ip_per_day": PLENTY, "keys_per_address_per_hour": PLENTY, "infra_chat_per_minute": PLENTY}

# With few operations, every boundary of every member is tried too; the others' take minutes.
SMALL = {"studio", "facilitator"}

# What no schema can say: a checksum, a signature, a name the operator chose, two members that must agree, a full shelf;
# and names in more spellings than a schema should list, which come from dictionaries here.
CONFIGURATION = """
warnings = false

[checks.negative_data_rejection]
expected-statuses = [400, 401, 403, 404, 405, 406, 409, 413, 414, 415, 429, 431]

[checks.not_a_server_error]
expected-statuses = ["2xx", "3xx", "4xx"{expected}]

[dictionaries.countries]
values = ["Taiwan", "taiwan", "JP", "us", "The Netherlands"]

[dictionaries.companies]
values = ["nvidia", "NVIDIA", "TSM", "asml"]

[dictionaries.stages]
values = ["packaging_test", "PACKAGING_TEST"]

[parameters]
"query.country" = {{ dictionary = "countries", probability = 1.0 }}
"query.company" = {{ dictionary = "companies", probability = 1.0 }}

[[operations]]
include-operation-id = "findPaths"

[operations.parameters]
"query.from" = {{ dictionary = "companies", probability = 1.0 }}
"query.to" = {{ dictionary = "companies", probability = 1.0 }}

[[operations]]
include-operation-id = ["listCompanies", "searchCompanies"]

[operations.parameters]
"query.brand" = {{ dictionary = "stages", probability = 1.0 }}
"query.category" = {{ dictionary = "stages", probability = 1.0 }}

[auth.openapi.bearer]
bearer = "{key}"

[[operations]]
include-operation-id = ["rotateKey", "revokeKey"]
headers = {{ Authorization = "Bearer {mortal}" }}

[[operations]]
include-operation-id = [
    "registerAgent", "depositCredit", "getAgentBalance", "getAgentUsage", "beginCheckout", "receiveStripeEvent", "chat",
    "createAlert", "changeAlert", "previewAlert", "saveAnalysisQuery", "verifyPayment", "settlePayment",
    "ucpSearchCatalog", "ucpLookupCatalog", "ucpGetProduct",
]
checks.positive_data_acceptance.expected-statuses = ["2xx", "3xx", 400, 401, 403, 404, 409, 429, "5xx"]

# Nothing here pays.
[[operations]]
include-path-regex = "/x402/"
checks.positive_data_acceptance.expected-statuses = [402]
checks.negative_data_rejection.expected-statuses = [402]
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def configured():
    """The settings of a server on which everything is configured, the others it depends on being there."""
    with ExitStack() as stack:
        model = stack.enter_context(fake_model())
        async with LocalChain.start() as chain, stripe() as shop:
            yield UNLIMITED | {
                "evm_rpc_url": chain.url, "treasury_address": ACCOUNTS[2].address, "deposit_confirmations": 1,
                "x402_facilitator_key": ACCOUNTS[4].private_key, "x402_pay_to": ACCOUNTS[5].address,
                "llm_base_url": model.url, "stripe_secret_key": SECRET_KEY, "stripe_webhook_secret": WEBHOOK_SECRET,
                "stripe_api_base": shop.url, "stripe_prices": ",".join(f"{price}=pro" for price in PRICES),
            }  # fmt: skip


@pytest.fixture(scope="module")
def servers(start_server):
    """A function that starts a server once for each name."""
    started = {}

    def named(name, *arguments: str, **settings: object) -> Server:
        if name not in started:
            started[name] = start_server(*arguments, **settings)
        return started[name]

    return named


async def found_nothing(server, url, tmp_path, *, may_fail_with="", has_keys=True, is_small=False, paths="."):
    key = mortal = "none"
    if has_keys:
        options = ("--tier", "enterprise", "--per-minute", PLENTY)
        key, mortal = await asyncio.to_thread(server.operators_key, *options), server.new_key()["api_key"]
    configuration = tmp_path / "schemathesis.toml"
    configuration.write_text(CONFIGURATION.format(expected=may_fail_with, key=key, mortal=mortal))
    phases = "examples,coverage,fuzzing,stateful" if is_small else "examples,fuzzing,stateful"
    process = await asyncio.create_subprocess_exec(
        PROGRAM, "--config-file", configuration, "run", f"{url}/api/openapi.json", "--url", url, "--seed", str(SEED),
        "-n", str(EXAMPLES), "--phases", phases, "--include-path-regex", paths,
        "--no-color", "--no-shrink", "--generation-database", "none",
        cwd=tmp_path, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    told, _ = await process.communicate()
    assert process.returncode == 0, told.decode()
    assert "No issues found" in told.decode()


@pytest.mark.parametrize("service", list(SERVICES))
async def test_schemathesis_finds_nothing_where_everything_is_configured(servers, configured, service, tmp_path):
    server = await asyncio.to_thread(servers, "configured", **configured)
    await found_nothing(server, f"{server.root}/{service}", tmp_path, has_keys=service == "defense",
                        is_small=service in SMALL)  # fmt: skip


async def test_schemathesis_finds_nothing_at_the_facilitator(servers, configured, tmp_path):
    (alone,) = EVERY_SERVICE.keys() - SERVICES.keys()
    server = await asyncio.to_thread(servers, alone, alone, is_recorded=False, **configured)
    await found_nothing(server, server.root, tmp_path, has_keys=False, is_small=alone in SMALL)


async def test_schemathesis_finds_nothing_but_what_is_told_where_nothing_is_configured(servers, tmp_path):
    server = await asyncio.to_thread(servers, "bare", **UNLIMITED)
    await found_nothing(
        server, f"{server.root}/defense", tmp_path, may_fail_with=", 503", paths="^/api/(agent|stripe)/"
    )
