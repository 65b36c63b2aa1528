"""Why a payment is refused: the codes of the x402 standard, and each in a sentence for whoever paid."""

from tollhouse.payments.x402.types import VerificationFailure

_PAYLOAD = "invalid_exact_evm_payload"

INSUFFICIENT_FUNDS = "insufficient_funds"
INVALID_NETWORK = "invalid_network"
INVALID_PAYLOAD = "invalid_payload"
INVALID_REQUIREMENTS = "invalid_payment_requirements"
INVALID_SIGNATURE = f"{_PAYLOAD}_signature"
INVALID_STATE = "invalid_transaction_state"
INVALID_VERSION = "invalid_x402_version"
FACTORY_NOT_ALLOWED = "eip6492_factory_not_allowed"
NONCE_USED = "invalid_exact_evm_nonce_already_used"
RECIPIENT_MISMATCH = f"{_PAYLOAD}_recipient_mismatch"
TRANSACTION_FAILED = "transaction_failed"
UNSUPPORTED_SCHEME = "unsupported_scheme"
VALID_AFTER = f"{_PAYLOAD}_authorization_valid_after"
VALID_BEFORE = f"{_PAYLOAD}_authorization_valid_before"
VALUE_MISMATCH = f"{_PAYLOAD}_authorization_value_mismatch"

# Version 1 has an older word for it.
_IN_V1 = {VALUE_MISMATCH: f"{_PAYLOAD}_authorization_value"}

_SENTENCES = {
    INSUFFICIENT_FUNDS: "The payer holds less USDC than the payment.",
    INVALID_NETWORK: "The payment is for another network than the one asked for.",
    INVALID_REQUIREMENTS: "The requirement that the payment accepts is none of those asked for.",
    INVALID_SIGNATURE: "The authorization is not signed by its payer for this token on this network.",
    INVALID_STATE: "The chain would not carry this authorization out.",
    FACTORY_NOT_ALLOWED: "The factory that would make the payer's wallet is none that this server calls.",
    NONCE_USED: "This authorization was used before. Sign a fresh one with a random nonce.",
    RECIPIENT_MISMATCH: "The authorization pays another address than the one asked for.",
    TRANSACTION_FAILED: "The chain did not carry this authorization out. No money has moved.",
    UNSUPPORTED_SCHEME: "The only scheme taken here is `exact`.",
    VALID_AFTER: "The authorization is not valid yet.",
    VALID_BEFORE: "The authorization has expired, or leaves too little time to settle it.",
    VALUE_MISMATCH: "The authorization is not for exactly the amount asked for.",
}


def refused(reason: str, version: int) -> VerificationFailure:
    """The refusal with its code, as that version of the protocol spells it, and its sentence."""
    sentence = _SENTENCES.get(reason, "The payment could not be settled. No money has moved.")
    return VerificationFailure(_IN_V1.get(reason, reason) if version == 1 else reason, sentence)
