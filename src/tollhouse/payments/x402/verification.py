"""Verification of a payment: its content and signature, a simulation on the chain, and later its outcome there."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

from msgspec import Struct

from tollhouse import clock
from tollhouse.errors import Problem
from tollhouse.evm import Signature, keccak256, parse_address, parse_signature, recover
from tollhouse.payments.chain import replies
from tollhouse.payments.chain.client import LATEST, ChainClient, RpcCall, accepted
from tollhouse.payments.chain.contracts import (
    WORD,
    CallResult,
    ContractCall,
    balance_of,
    direct_call,
    direct_result,
    is_ordered,
    multicall,
    multicall_results,
    uint256,
)
from tollhouse.payments.chain.replies import Block, ChainRefused, ChainUnavailable, Log, Receipt
from tollhouse.payments.x402.schemes import SettledTransfer, SettlementPlan, scheme_of
from tollhouse.payments.x402.types import (
    Failed,
    InvalidReason,
    Payment,
    Requirement,
    Settled,
    Unknown,
    VerificationFailure,
    Verified,
    verification_failure,
)

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


# Six blocks of Base: a reorganisation of the newest blocks does not make an expired authorization valid again.
EXPIRED_MARGIN_SECONDS = 12
BLOCKS_PER_QUERY = 1_000
BLOCKS_BEFORE = 32
"""How many blocks before the claim are searched too: the nodes of one provider differ in height."""


class Pending(Struct, frozen=True):
    """The authorization is unused and may still be settled."""


class Unrecoverable(Struct, frozen=True):
    """It was not settled, and can never be."""

    reason: str


SettlementOutcome = Settled | Unrecoverable | Unknown | Pending

HasSent = Callable[[Payment, Requirement, str], Awaitable[bool | None]]
"""Whether a transaction that used the payment's authorization was sent for us; None if that is not known yet."""


async def settlement_outcome(
    chain: ChainClient, payment: Payment, requirement: Requirement, since_block: int, has_sent: HasSent
) -> SettlementOutcome:
    """The outcome of a payment that was unused at `since_block`. Raises ChainUnavailable, and what `has_sent` raises.

    A used nonce alone proves nothing: the payer may have cancelled it, or used it for another transfer. Nor does the
    right transfer: another server, or the payer, may have sent it for something else.
    """
    head = await chain.block(LATEST)
    if head is None:
        raise ChainUnavailable("the node has no newest block")
    is_expired = head.timestamp >= payment.authorization.valid_before + EXPIRED_MARGIN_SECONDS
    if await _is_used(chain, payment, requirement, head):
        outcome = await _find_use(chain, payment, requirement, max(0, since_block - BLOCKS_BEFORE), head.number)
        if outcome is None:
            # Its log is missing only on this node, or there is none. The provider's nodes agree by the time it expires.
            is_lost = is_expired and not scheme_of(payment).logs_every_use
            return Unrecoverable(InvalidReason.NONCE_USED) if is_lost else Unknown()
        if not isinstance(outcome, Settled):
            return outcome
        is_ours = await has_sent(payment, requirement, outcome.tx_hash)
        if is_ours is None:
            return Unknown(outcome.tx_hash)
        return outcome if is_ours else Unrecoverable(InvalidReason.NONCE_USED)
    if is_expired:
        return Unrecoverable(InvalidReason.VALID_BEFORE)
    return Pending()


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


async def _is_used(chain: ChainClient, payment: Payment, requirement: Requirement, head: Block) -> bool:
    use = scheme_of(payment).nonce_use(payment, requirement)
    try:
        state = await chain.call(use.call.to, use.call.data, at=head.number)
    except ChainRefused:
        state = b""
    return use.is_in(CallResult(is_success=len(state) == WORD, return_data=state))


async def _find_use(
    chain: ChainClient, payment: Payment, requirement: Requirement, first: int, last: int
) -> SettlementOutcome | None:
    """The outcome that the logs of these blocks show; None if they show none."""
    for start in range(first, last + 1, BLOCKS_PER_QUERY):
        end = min(start + BLOCKS_PER_QUERY - 1, last)
        for address, topics in scheme_of(payment).use_filters(payment, requirement):
            for log in await chain.logs(address, topics, start, end):
                outcome = await _classify_use(chain, payment, requirement, log)
                if outcome is not None:
                    return outcome
    return None


async def _classify_use(
    chain: ChainClient, payment: Payment, requirement: Requirement, log: Log
) -> SettlementOutcome | None:
    """The outcome, if the log is of this authorization's use."""
    scheme, data = scheme_of(payment), b""
    if not scheme.logs_every_use:
        transaction = await chain.transaction(log.tx_hash)
        if transaction is None:
            return Unknown(log.tx_hash)
        data = transaction.data
    use = scheme.use(log, data, payment)
    if use is None:
        return None
    if use == "given_up":
        return Unrecoverable(InvalidReason.NONCE_USED)
    receipt = await chain.receipt(log.tx_hash)
    if receipt is None or receipt.block_hash != log.block_hash:
        return Unknown(log.tx_hash)
    if not proves_payment(receipt, payment, requirement):
        return Unrecoverable(InvalidReason.NONCE_USED)
    return Settled(receipt.tx_hash, payment.payer, receipt.block_number, receipt)


SEARCHED_BLOCKS = 5_000
"""Nearly three hours of Base. Beyond that, a used nonce cannot be distinguished from a cancelled one."""
RETRY_SECONDS = 0.25


async def recent_outcome(
    chain: ChainClient, payment: Payment, requirement: Requirement, has_sent: HasSent
) -> SettlementOutcome:
    """The outcome, from the newest blocks only. Raises as `settlement_outcome`."""
    newest = await chain.block_number()
    return await settlement_outcome(chain, payment, requirement, max(0, newest - SEARCHED_BLOCKS), has_sent)


async def wait_for_outcome(
    chain: ChainClient, payment: Payment, requirement: Requirement, seconds: float, has_sent: HasSent
) -> Settled | Failed | Unknown:
    """Query the chain until the outcome is known or time is up: then it is Unknown. Raises nothing."""
    deadline = clock.seconds() + seconds
    while True:
        try:
            outcome = await recent_outcome(chain, payment, requirement, has_sent)
        except Problem:  # the node or the storage
            outcome = Unknown()
        if isinstance(outcome, Settled):
            return outcome
        if isinstance(outcome, Unrecoverable):
            return Failed(outcome.reason)
        if clock.seconds() >= deadline:
            return outcome if isinstance(outcome, Unknown) else Unknown()
        await asyncio.sleep(RETRY_SECONDS)
