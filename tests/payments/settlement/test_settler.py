"""Which settler the settings mean, and what is said where they contradict themselves."""

import pytest

from tests.fakes.facilitator import facilitator
from tests.payments.settlement.conftest import SETTLING
from tests.payments.x402.signed_payments import RELAYER, REQUIREMENT, read, v1
from tollhouse.config.settings import SettingError, Settings
from tollhouse.payments.chain.client import ChainClient
from tollhouse.payments.pay_per_request import open_settler
from tollhouse.payments.x402.settlement.built_in import BuiltInFacilitator
from tollhouse.payments.x402.settlement.remote import RemoteFacilitator
from tollhouse.payments.x402.types import Settled
from tollhouse.storage.database import open_database
from tollhouse.storage.migrate import migrate

KEY = SETTLING.private_key
URL = "http://127.0.0.1:1/"


@pytest.fixture
async def opened(data_dir):
    """A function that opens what the settings mean, and tells its kind."""
    databases = []

    async def kind(chain: ChainClient | None, **told: str) -> type:
        settings = Settings(data_dir=str(data_dir), **told)
        databases.append(open_database(settings))
        async with open_settler(settings, databases[-1], chain) as settler:
            return type(settler)

    yield kind
    for database in databases:
        await database.close()


@pytest.fixture
async def node():
    client = ChainClient(URL)
    yield client
    await client.close()


async def test_settings_name_one_or_none(opened, node):
    assert await opened(node) is type(None)
    assert await opened(None) is type(None)
    assert await opened(node, x402_facilitator_key=KEY) is BuiltInFacilitator
    assert await opened(node, x402_facilitator_url=URL) is RemoteFacilitator


@pytest.mark.parametrize(
    ("told", "name"),
    [
        ({"x402_facilitator_key": KEY, "x402_facilitator_url": URL}, "x402_facilitator_key"),
        ({"x402_facilitator_key": "0x1234"}, "x402_facilitator_key"),
        ({"x402_facilitator_key": "0x" + "0" * 64}, "x402_facilitator_key"),
    ],
)
async def test_settings_that_cannot_be_are_named_without_their_secret(opened, node, told, name):
    with pytest.raises(SettingError) as caught:
        await opened(node, **told)
    assert str(caught.value).startswith(name)
    assert told["x402_facilitator_key"] not in str(caught.value)


@pytest.mark.parametrize("told", [{"x402_facilitator_key": KEY}, {"x402_facilitator_url": URL}])
async def test_settling_needs_a_node(opened, told):
    with pytest.raises(SettingError, match="evm_rpc_url"):
        await opened(None, **told)


async def test_remote_facilitator_of_the_settings_settles(chain, data_dir):
    async with facilitator(chain.url, RELAYER.address) as elsewhere:
        settings = Settings(
            data_dir=str(data_dir), x402_facilitator_url=elsewhere.url, x402_facilitator_auth=elsewhere.token
        )
        database = open_database(settings)
        await migrate(database)
        async with open_settler(settings, database, chain.client) as settler:
            assert isinstance(await settler.settle(read(v1()), REQUIREMENT), Settled)
        await database.close()


async def test_operator_is_told_what_the_facilitator_does_not_settle(chain, data_dir, capsys):
    async with facilitator(chain.url, RELAYER.address, networks={2: "eip155:8453"}) as elsewhere:
        settings = Settings(
            data_dir=str(data_dir), x402_facilitator_url=elsewhere.url, x402_facilitator_auth=elsewhere.token
        )
        database = open_database(settings)
        await migrate(database)
        async with open_settler(settings, database, chain.client) as settler:
            await settler.settle(read(v1()), REQUIREMENT)
        await database.close()
    assert "network not supported" in capsys.readouterr().out
