"""Verification of a payment: first its content and signature, then a simulation on the chain."""

from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct

from tollhouse.evm.address import parse_address
from tollhouse.evm.keccak import keccak256
from tollhouse.evm.signature import Signature, parse_signature, recover
from tollhouse.evm.typed_data import transfer_digest
from tollhouse.payments.chain import replies
from tollhouse.payments.chain.client import LATEST, ChainClient
from tollhouse.payments.chain.contracts import (
    CallResult,
    ContractCall,
    authorization_state,
    balance_of,
    multicall,
    multicall_results,
    revert_text,
    transfer_with_contract_signature,
    transfer_with_eoa_signature,
    uint256,
    unwrap_signature,
)
from tollhouse.payments.chain.replies import ChainUnavailable
from tollhouse.payments.x402.types import (
    EXACT,
    InvalidReason,
    Payment,
    Requirement,
    VerificationFailure,
    Verified,
    verification_failure,
)

KEY_SIGNATURE_BYTES = 65
MIN_VALID_SECONDS = 6
"""An authorization must be valid for at least this long (a rule of the specification): three blocks of Base."""


def match_requirement(accepts: Sequence[Requirement], payment: Payment) -> Requirement | VerificationFailure:
    """The requirement that the payment meets: same network, exactly the amount, exactly the recipient."""
    if payment.scheme != EXACT:
        return verification_failure(InvalidReason.UNSUPPORTED_SCHEME, payment.version)
    is_v1 = payment.version == 1
    on_network = [one for one in accepts if payment.network == (one.network_v1 if is_v1 else one.network)]
    if not on_network:
        return verification_failure(InvalidReason.INVALID_NETWORK, payment.version)
    accepted = [one for one in on_network if payment.accepted is None or payment.accepted == one.v2()]
    if not accepted:
        return verification_failure(InvalidReason.INVALID_REQUIREMENTS, payment.version)
    paid = payment.authorization
    to_us = [one for one in accepted if parse_address(one.pay_to).raw == paid.recipient]
    if not to_us:
        return verification_failure(InvalidReason.RECIPIENT_MISMATCH, payment.version)
    exact = [one for one in to_us if one.amount_micros == paid.value]
    return exact[0] if exact else verification_failure(InvalidReason.VALUE_MISMATCH, payment.version)


def check_validity(payment: Payment, now: float) -> VerificationFailure | None:
    """Why the authorization cannot be settled at that time (seconds since 1970); None if it can."""
    if payment.authorization.valid_before < now + MIN_VALID_SECONDS:
        return verification_failure(InvalidReason.VALID_BEFORE, payment.version)
    if payment.authorization.valid_after > now:
        return verification_failure(InvalidReason.VALID_AFTER, payment.version)
    return None


def recover_eoa_signature(payment: Payment, requirement: Requirement) -> Signature | None:
    """The signature, if the payer's own key made it for this token; None for anything else."""
    if len(payment.signature) != KEY_SIGNATURE_BYTES:
        return None
    try:
        signature = parse_signature(payment.signature.hex())
        signer = recover(authorization_digest(payment, requirement), signature)
    except ValueError:
        return None
    return signature if signer == payment.authorization.sender else None


def authorization_digest(payment: Payment, requirement: Requirement) -> bytes:
    """The 32 bytes that the payer signed."""
    return transfer_digest(requirement.domain, payment.authorization)


class WalletRules(Struct, frozen=True):
    """Which payers may be contracts. `factories` are the addresses that may deploy a payer's wallet (EIP-6492).

    A key with delegated code (EIP-7702) counts as a contract: the token asks that code for the signature.
    """

    contract_wallets: bool = False
    factories: tuple[str, ...] = ()


KEYS_ONLY = WalletRules()


class SettlementPlan(Struct, frozen=True):
    """The calls that settle a payment. `eoa_signature` is set if the payer is a key (EOA).

    `deployment` deploys the payer's wallet, if the signature names an allowed factory (EIP-6492); `is_factory_refused`
    if it names one that is not allowed.
    """

    transfer: ContractCall
    eoa_signature: Signature | None
    deployment: ContractCall | None = None
    is_factory_refused: bool = False


def plan_settlement(payment: Payment, requirement: Requirement, factories: Collection[str] = ()) -> SettlementPlan:
    """Plan the calls for a payment. `factories` are the addresses of the allowed wallet factories, in any case."""
    eoa_signature = recover_eoa_signature(payment, requirement)
    if eoa_signature is not None:
        return SettlementPlan(
            ContractCall(requirement.asset, transfer_with_eoa_signature(payment.authorization, eoa_signature)),
            eoa_signature,
        )
    try:
        wrapped = unwrap_signature(payment.signature)
    except ValueError:
        wrapped = None
    signature = wrapped.signature if wrapped else payment.signature
    transfer = ContractCall(requirement.asset, transfer_with_contract_signature(payment.authorization, signature))
    if wrapped is None:
        return SettlementPlan(transfer, None)
    if parse_address(wrapped.deployment.to) in {parse_address(factory) for factory in factories}:
        return SettlementPlan(transfer, None, wrapped.deployment)
    return SettlementPlan(transfer, None, is_factory_refused=True)


# Revert messages of USDC and similar tokens.
_REVERT_MESSAGES = {
    "signature": InvalidReason.INVALID_SIGNATURE,
    "used or canceled": InvalidReason.NONCE_USED,
    "not yet valid": InvalidReason.VALID_AFTER,
    "expired": InvalidReason.VALID_BEFORE,
    "exceeds balance": InvalidReason.INSUFFICIENT_FUNDS,
    "more than the balance": InvalidReason.INSUFFICIENT_FUNDS,
}


async def verify_on_chain(
    chain: ChainClient,
    payment: Payment,
    requirement: Requirement,
    rules: WalletRules = KEYS_ONLY,
    transaction: Mapping[str, str] | None = None,
) -> Verified | VerificationFailure:
    """Whether the payer signed, holds enough, has not used the nonce, and the transfer would succeed now.

    All calls run in one `eth_call` of Multicall3, in order: a wallet can be deployed before it is asked, and all see
    the same block. `transaction` are the sender, the fees and the gas limit that a transaction would have. Without a
    key's signature nothing is asked of the chain unless contract wallets are allowed. Raises ChainUnavailable.
    """
    plan = plan_settlement(payment, requirement, rules.factories)
    if plan.eoa_signature is None and not rules.contract_wallets:
        refused = verification_failure(InvalidReason.CONTRACT_WALLET, payment.version)
        if len(payment.signature) != KEY_SIGNATURE_BYTES:
            return refused
        # Of a stranger's key, or of a contract's owner: only the chain could tell.
        invalid = verification_failure(InvalidReason.INVALID_SIGNATURE, payment.version)
        return VerificationFailure(invalid.reason, f"{invalid.detail} {refused.detail}")
    paid = payment.authorization
    # The transfer comes last: it changes what the others see, and a contract's code may use up the gas.
    named_calls = {
        "balance": ContractCall(requirement.asset, balance_of(paid.sender)),
        "is_used": ContractCall(requirement.asset, authorization_state(paid.sender, paid.nonce)),
        "deployment": plan.deployment,
        "transfer": plan.transfer,
    }
    calls = {name: call for name, call in named_calls.items() if call is not None}
    chain_id, block_reply, code_reply, results = await chain.rpc.batch(
        [
            ("eth_chainId", []),
            ("eth_getBlockByNumber", [LATEST, False]),
            ("eth_getCode", [payment.payer, LATEST]),
            multicall(list(calls.values()), LATEST, transaction),
        ]
    )
    if replies.quantity(chain_id) != requirement.chain_id:
        raise ChainUnavailable("the node serves another chain")
    block = replies.block(block_reply, LATEST)
    if block is None:
        raise ChainUnavailable("the node has no newest block")
    code = replies.hex_bytes(code_reply)
    if code and not rules.contract_wallets:
        return verification_failure(InvalidReason.CONTRACT_WALLET, payment.version)
    executed = dict(zip(calls, multicall_results(results, len(calls)), strict=True))
    reason = _reason(payment, plan, executed)
    if reason is not None:
        return verification_failure(reason, payment.version)
    return Verified(block.number, code_hash(code) if code else None)


def code_hash(code: bytes) -> str:
    """The hash of a wallet's code. Wallets with the same code behave alike."""
    return "0x" + keccak256(code).hex()


def _reason(payment: Payment, plan: SettlementPlan, results: dict[str, CallResult]) -> str | None:
    if uint256(results["is_used"]) != 0:
        return InvalidReason.NONCE_USED
    if uint256(results["balance"]) < payment.authorization.value:
        return InvalidReason.INSUFFICIENT_FUNDS
    transfer = results["transfer"]
    if transfer.is_success:
        return None
    if plan.is_factory_refused:
        return InvalidReason.FACTORY_NOT_ALLOWED
    message = revert_text(transfer.return_data).lower()
    return next((reason for words, reason in _REVERT_MESSAGES.items() if words in message), InvalidReason.INVALID_STATE)
