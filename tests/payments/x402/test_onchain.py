from typing import Any

import pytest

from tests.payments.x402.signed_payments import (
    FACTORY,
    OTHER,
    PAYER,
    REQUIREMENT,
    SELLER,
    authorization,
    from_unmade_wallet,
    read,
    signature,
    v1,
    v2,
)
from tests.servers.chain import deploy
from tollhouse.payments.chain.client import ChainClient, Limits
from tollhouse.payments.chain.contracts import token_balance
from tollhouse.payments.chain.local_chain import LocalChain
from tollhouse.payments.chain.replies import ChainUnavailable
from tollhouse.payments.x402.types import Requirement, Settled
from tollhouse.payments.x402.verification import Verified, WalletRules, plan_settlement, verify_on_chain


async def reason(chain: LocalChain, sent: dict, requirement: Requirement = REQUIREMENT, **rules: Any) -> str | None:
    await chain.request("anvil_mine")
    found = await verify_on_chain(chain.client, read(sent), requirement, WalletRules(**rules))
    return None if isinstance(found, Verified) else found.reason


@pytest.mark.parametrize("sent", [v1, v2])
async def test_payer_with_enough_and_a_fresh_nonce_is_sound(chain, sent):
    found = await verify_on_chain(chain.client, read(sent()), REQUIREMENT)
    assert found == Verified(await chain.client.block_number())


async def test_asking_moves_nothing(chain):
    told = authorization()
    assert await reason(chain, v1(told)) is None
    assert await reason(chain, v1(told)) is None


async def test_payer_who_holds_too_little_is_refused(chain):
    told = authorization(**{"from": OTHER.address})
    assert await reason(chain, v1(told, signature(told, OTHER.private_key))) == "insufficient_funds"
    await chain.fund_usdc(OTHER.address, 999)
    assert await reason(chain, v1(told, signature(told, OTHER.private_key))) == "insufficient_funds"
    await chain.fund_usdc(OTHER.address, 1)
    assert await reason(chain, v1(told, signature(told, OTHER.private_key))) is None


async def test_nonce_that_was_used_is_refused(sqlite_server, chain):
    payment = read(v1())
    await sqlite_server.settler.settle(payment, REQUIREMENT)
    assert (await verify_on_chain(chain.client, payment, REQUIREMENT)).reason == "invalid_exact_evm_nonce_already_used"


async def test_signature_of_nobody_is_refused_by_the_chain_too(chain):
    told = authorization(**{"from": "0x" + "12" * 20})
    await chain.fund_usdc("0x" + "12" * 20, 1_000)
    forged = "0x" + "11" * 65
    assert await reason(chain, v1(told, forged), contract_wallets=True) == "invalid_exact_evm_payload_signature"
    assert (
        await reason(chain, v1(signed="0x" + "11" * 64), contract_wallets=True) == "invalid_exact_evm_payload_signature"
    )


async def test_contract_wallet_pays_with_its_owners_signature(chain):
    wallet = await deploy(chain, "ContractWallet", PAYER.address)
    await chain.fund_usdc(wallet, 1_000)
    told = authorization(**{"from": wallet})
    assert await reason(chain, v1(told), contract_wallets=True) is None
    of_other = v1(told, signature(told, OTHER.private_key))
    assert await reason(chain, of_other, contract_wallets=True) == "invalid_exact_evm_payload_signature"


async def test_contract_that_knows_no_signatures_pays_nothing(chain):
    await chain.fund_usdc(chain.usdc_address, 1_000)
    told = authorization(**{"from": chain.usdc_address})
    assert await reason(chain, v1(told), contract_wallets=True) == "invalid_exact_evm_payload_signature"


async def test_authorization_that_the_chain_finds_too_early_is_refused(chain):
    block = await chain.client.block()
    told = authorization(validAfter=str(block.timestamp + 100), validBefore=str(block.timestamp + 500))
    assert await reason(chain, v1(told)) == "invalid_exact_evm_payload_authorization_valid_after"


async def test_token_without_authorizations_is_an_upstream_failure(chain):
    elsewhere = Requirement(8453, 1_000, OTHER.address, SELLER.address, 60)
    told = authorization()
    payment = read(v1(told, signature(told, verifyingContract=OTHER.address)))
    with pytest.raises(ChainUnavailable):
        await verify_on_chain(chain.client, payment, elsewhere)


async def test_node_of_another_chain_is_an_upstream_failure(chain):
    elsewhere = Requirement(84532, 1_000, chain.usdc_address, SELLER.address, 60)
    told = authorization()
    payment = read(v1(told, signature(told, chainId=84532)))
    with pytest.raises(ChainUnavailable):
        await verify_on_chain(chain.client, payment, elsewhere)


async def test_node_that_does_not_answer_is_an_upstream_failure():
    gone = ChainClient("http://127.0.0.1:9", Limits(attempt_seconds=0.2, deadline_seconds=0.5))
    with pytest.raises(ChainUnavailable) as unavailable:
        await verify_on_chain(gone, read(v1()), REQUIREMENT)
    await gone.close()
    assert (unavailable.value.status, unavailable.value.code) == (502, "upstream-unavailable")


@pytest.fixture
def counterfactual():
    return from_unmade_wallet()


async def test_wallet_that_an_allowed_factory_makes_pays_before_it_is_there(sqlite_server, chain, counterfactual):
    payment = read(counterfactual)
    await chain.fund_usdc(payment.payer, 1_000)
    wallets = {"contract_wallets": True}
    assert await reason(chain, counterfactual, **wallets) == "eip6492_factory_not_allowed"
    assert await reason(chain, counterfactual, factories=(OTHER.address,), **wallets) == "eip6492_factory_not_allowed"
    assert await reason(chain, counterfactual, factories=(FACTORY,), **wallets) is None
    assert await chain.client.code(payment.payer) == b""
    sqlite_server.settler.rules = WalletRules(contract_wallets=True, factories=(FACTORY,))
    assert isinstance(await sqlite_server.settler.settle(payment, REQUIREMENT), Settled)
    assert await token_balance(chain.client, chain.usdc_address, SELLER.address) == 1_000


async def test_wallet_that_is_there_already_needs_no_factory(sqlite_server, chain, counterfactual):
    payment = read(counterfactual)
    await chain.fund_usdc(payment.payer, 1_000)
    deployment = plan_settlement(payment, REQUIREMENT, [FACTORY]).deployment
    await chain.wait_mined(await chain.send(OTHER, deployment.to, deployment.data))
    assert await reason(chain, counterfactual, contract_wallets=True) is None
