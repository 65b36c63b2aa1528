"""What a wallet signs when it signs a message for a person to read (EIP-191, personal_sign)."""

from tollhouse.evm.keccak import keccak256


def personal_digest(message: bytes) -> bytes:
    """The 32 bytes that are signed: the prefix keeps a message from ever being a transaction."""
    return keccak256(b"\x19Ethereum Signed Message:\n%d%b" % (len(message), message))
