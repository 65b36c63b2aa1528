"""Schemes of payment, and the verification of a payment: its content and signature, and a simulation on the chain."""

from collections.abc import Collection, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from tollhouse.evm import (
    PermitTransfer,
    Signature,
    TransferWithAuthorization,
    keccak256,
    parse_address,
    parse_signature,
    recover,
    transfer_digest,
)
from tollhouse.payments.chain import replies
from tollhouse.payments.chain.client import LATEST, ChainClient, RpcCall, accepted
from tollhouse.payments.chain.contracts import (
    CANCELLED_TOPIC,
    USED_TOPIC,
    CallResult,
    ContractCall,
    address_topic,
    authorization_state,
    balance_of,
    direct_call,
    direct_result,
    is_ordered,
    multicall,
    multicall_results,
    transfer_with_contract_signature,
    transfer_with_eoa_signature,
    uint256,
    unwrap_signature,
)
from tollhouse.payments.chain.replies import ChainUnavailable, Log, Receipt
from tollhouse.payments.x402.types import (
    EXACT,
    UPTO,
    InvalidReason,
    NonceUse,
    Payment,
    Requirement,
    SettledTransfer,
    SettlementPlan,
    VerificationFailure,
    Verified,
    revert_reason,
    verification_failure,
)
from tollhouse.payments.x402.upto import Upto


class Exact:
    """The exact amount, by an EIP-3009 authorization: the token itself checks it and logs its use."""

    gas = 95_000
    """Units of gas that a payment from a key uses alone in a transaction. In a batch it is less than half."""
    logs_every_use = True
    """Whether each use of an authorization leaves a log with its nonce."""

    def mismatch(self, _payment: Payment, _requirement: Requirement) -> str | None:
        """Why the payment does not meet the requirement, apart from recipient and amount."""
        return None

    def digest(self, payment: Payment, requirement: Requirement) -> bytes:
        """The 32 bytes that the payer signed."""
        return transfer_digest(requirement.domain, _transfer(payment))

    def plan(
        self, payment: Payment, requirement: Requirement, key: Signature | None, factories: Collection[str]
    ) -> SettlementPlan:
        """The calls that move the requirement's amount. `key` is the payer's signature if it was made by its key."""
        authorization = _transfer(payment)
        if key is not None:
            call = transfer_with_eoa_signature(authorization, key)
            return SettlementPlan(ContractCall(requirement.asset, call), key, self.gas)
        wrapped = unwrap_signature(payment.signature)
        deployment, call = wrapped.deployment, transfer_with_contract_signature(authorization, wrapped.signature)
        transfer = ContractCall(requirement.asset, call)
        if deployment is None:
            return SettlementPlan(transfer, None, self.gas)
        if parse_address(deployment.to) in {parse_address(factory) for factory in factories}:
            return SettlementPlan(transfer, None, self.gas, deployment)
        return SettlementPlan(transfer, None, self.gas, is_factory_refused=True)

    def nonce_use(self, payment: Payment, requirement: Requirement) -> NonceUse:
        """How to ask whether the authorization was used, or given up."""
        paid = payment.authorization
        return NonceUse(ContractCall(requirement.asset, authorization_state(paid.sender, paid.nonce)))

    def preconditions(self, _payment: Payment, _requirement: Requirement) -> Mapping[str, ContractCall]:
        """Further calls that tell why a transfer cannot succeed."""
        return {}

    def failure(self, results: Mapping[str, CallResult], _requirement: Requirement) -> str | None:
        """Why the transfer cannot succeed; None if it can. Raises ChainUnavailable."""
        transfer = results["transfer"]
        return None if transfer.is_success else revert_reason(transfer)

    def use_filters(self, payment: Payment, requirement: Requirement) -> Sequence[tuple[str, tuple[str, ...]]]:
        """Contracts and topics of the logs that a use of the authorization leaves."""
        topics = (address_topic(payment.payer), payment.nonce)
        return [(requirement.asset, (USED_TOPIC, *topics)), (requirement.asset, (CANCELLED_TOPIC, *topics))]

    def use(self, log: Log, _data: bytes, _payment: Payment) -> Literal["given_up", "used"] | None:
        """What such a log says of the authorization; `data`, where uses are not logged, is of its transaction."""
        return "given_up" if log.topics[0] == CANCELLED_TOPIC else "used"

    def is_in(self, receipt: Receipt, settled: SettledTransfer) -> bool:
        """The token logs the use right before the transfer."""
        topics = (USED_TOPIC, address_topic(settled.payer), settled.nonce)
        return any(
            used.address == settled.asset and used.topics == topics and settled.is_in(after)
            for used, after in zip(receipt.logs, receipt.logs[1:], strict=False)
        )


Scheme = Exact | Upto
"""A way to authorize a transfer. Payments and requirements that a scheme is given are always of it."""

_SCHEMES: dict[str, Scheme] = {EXACT: Exact(), UPTO: Upto()}


def scheme_named(name: str) -> Scheme:
    """The scheme of that name. Raises KeyError for one that is not supported."""
    return _SCHEMES[name]


def scheme_of(payment: Payment) -> Scheme:
    """The scheme of the payment's authorization."""
    return _SCHEMES[UPTO if isinstance(payment.authorization, PermitTransfer) else EXACT]


def _transfer(payment: Payment) -> TransferWithAuthorization:
    assert isinstance(payment.authorization, TransferWithAuthorization)
    return payment.authorization


KEY_SIGNATURE_BYTES = 65
MIN_VALID_SECONDS = 6
"""An authorization must be valid for at least this long (a rule of the specification): three blocks of Base."""


def match_requirement(accepts: Sequence[Requirement], payment: Payment) -> Requirement | VerificationFailure:
    """The requirement that the payment meets: same scheme and network, exactly the amount, exactly the recipient."""
    of_scheme = [one for one in accepts if payment.scheme == one.scheme]
    if not of_scheme:
        return verification_failure(InvalidReason.UNSUPPORTED_SCHEME, payment)
    is_v1 = payment.version == 1
    on_network = [one for one in of_scheme if payment.network == (one.network_v1 if is_v1 else one.network)]
    if not on_network:
        return verification_failure(InvalidReason.INVALID_NETWORK, payment)
    accepted = [one for one in on_network if payment.accepted is None or payment.accepted == one.v2()]
    if not accepted:
        return verification_failure(InvalidReason.INVALID_REQUIREMENTS, payment)
    paid = payment.authorization
    to_us = [one for one in accepted if parse_address(one.pay_to).raw == paid.recipient]
    if not to_us:
        return verification_failure(InvalidReason.RECIPIENT_MISMATCH, payment)
    of_amount = [one for one in to_us if one.amount_micros == paid.value]
    if not of_amount:
        return verification_failure(InvalidReason.VALUE_MISMATCH, payment)
    mismatch = scheme_of(payment).mismatch(payment, of_amount[0])
    return of_amount[0] if mismatch is None else verification_failure(mismatch, payment)


def check_validity(payment: Payment, now: float) -> VerificationFailure | None:
    """Why the authorization cannot be settled at that time (seconds since 1970); None if it can."""
    if payment.authorization.valid_before < now + MIN_VALID_SECONDS:
        return verification_failure(InvalidReason.VALID_BEFORE, payment)
    if payment.authorization.valid_after > now:
        return verification_failure(InvalidReason.VALID_AFTER, payment)
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
    return scheme_of(payment).digest(payment, requirement)


class WalletRules(Struct, frozen=True):
    """Which payers may be contracts. `factories` are the addresses that may deploy a payer's wallet (EIP-6492).

    A key with delegated code (EIP-7702) counts as a contract: the token asks that code for the signature.
    """

    contract_wallets: bool = False
    factories: tuple[str, ...] = ()


KEYS_ONLY = WalletRules()


def plan_settlement(payment: Payment, requirement: Requirement, factories: Collection[str] = ()) -> SettlementPlan:
    """Plan the calls for a payment. `factories` are the addresses of the allowed wallet factories, in any case."""
    key = recover_eoa_signature(payment, requirement)
    return scheme_of(payment).plan(payment, requirement, key, factories)


async def verify_on_chain(
    chain: ChainClient,
    payment: Payment,
    requirement: Requirement,
    rules: WalletRules = KEYS_ONLY,
    transaction: Mapping[str, str] | None = None,
) -> Verified | VerificationFailure:
    """Whether the payer signed, holds enough, has not used the nonce, and the transfer would succeed now.

    All calls run in one `eth_call` of Multicall3, in order: a wallet can be deployed before it is asked, and all see
    the same block. Only a transfer that the facilitator's account itself must send has a call of its own.
    `transaction` are the sender, the fees and the gas limit that a transaction would have. Without a
    key's signature nothing is asked of the chain unless contract wallets are allowed. Raises ChainUnavailable.
    """
    plan = plan_settlement(payment, requirement, rules.factories)
    if plan.eoa_signature is None and not rules.contract_wallets:
        refused = verification_failure(InvalidReason.CONTRACT_WALLET, payment)
        if len(payment.signature) != KEY_SIGNATURE_BYTES:
            return refused
        # Of a stranger's key, or of a contract's owner: only the chain could tell.
        invalid = verification_failure(InvalidReason.INVALID_SIGNATURE, payment)
        return VerificationFailure(invalid.reason, f"{invalid.detail} {refused.detail}")
    scheme, paid = scheme_of(payment), payment.authorization
    # The transfer comes last: it changes what the others see, and a contract's code may use up the gas.
    named_calls = {
        "balance": ContractCall(requirement.asset, balance_of(paid.sender)),
        "is_used": scheme.nonce_use(payment, requirement).call,
        **scheme.preconditions(payment, requirement),
        "deployment": plan.deployment,
        "transfer": None if plan.is_direct else plan.transfer,
    }
    calls = {name: call for name, call in named_calls.items() if call is not None}
    requests: list[RpcCall] = [
        ("eth_chainId", []),
        ("eth_getBlockByNumber", [LATEST, False]),
        ("eth_getCode", [payment.payer, LATEST]),
        multicall(list(calls.values()), LATEST, transaction),
    ]
    if plan.is_direct:
        requests.append(direct_call(plan.transfer, requirement.facilitator, transaction))
    answers = await chain.rpc.try_batch(requests)
    chain_id, block_reply, code_reply, results = map(accepted, answers[:4])
    if replies.quantity(chain_id) != requirement.chain_id:
        raise ChainUnavailable("the node serves another chain")
    block = replies.block(block_reply, LATEST)
    if block is None:
        raise ChainUnavailable("the node has no newest block")
    code = replies.hex_bytes(code_reply)
    if code and not rules.contract_wallets:
        return verification_failure(InvalidReason.CONTRACT_WALLET, payment)
    executed = dict(zip(calls, multicall_results(results, len(calls)), strict=True))
    if plan.is_direct:
        executed["transfer"] = direct_result(answers[4])
    reason = _reason(payment, requirement, plan, executed)
    if reason is not None:
        return verification_failure(reason, payment)
    return Verified(block.number, code_hash(code) if code else None)


def code_hash(code: bytes) -> str:
    """The hash of a wallet's code. Wallets with the same code behave alike."""
    return "0x" + keccak256(code).hex()


def _reason(
    payment: Payment, requirement: Requirement, plan: SettlementPlan, results: dict[str, CallResult]
) -> str | None:
    scheme = scheme_of(payment)
    if scheme.nonce_use(payment, requirement).is_in(results["is_used"]):
        return InvalidReason.NONCE_USED
    if uint256(results["balance"]) < requirement.amount_micros:
        return InvalidReason.INSUFFICIENT_FUNDS
    reason = scheme.failure(results, requirement)
    return InvalidReason.FACTORY_NOT_ALLOWED if reason is not None and plan.is_factory_refused else reason


def proves_payment(receipt: Receipt, payment: Payment, requirement: Requirement) -> bool:
    """Whether a transaction settled this payment. Of the scheme `upto`: if it was sent to settle it."""
    settled = SettledTransfer(
        requirement.asset.lower(),
        payment.payer,
        payment.nonce,
        requirement.pay_to.lower(),
        requirement.amount_micros,
    )
    return receipt.is_success and scheme_of(payment).is_in(receipt, settled)


async def is_settled_by(chain: ChainClient, receipt: Receipt, payment: Payment, requirement: Requirement) -> bool:
    """Whether a transaction settled this payment, and no other that is like it. Raises ChainUnavailable."""
    if not proves_payment(receipt, payment, requirement):
        return False
    if scheme_of(payment).logs_every_use:
        return True
    transaction = await chain.transaction(receipt.tx_hash)
    return transaction is not None and is_ordered(transaction.data, payment.payer, payment.nonce)
