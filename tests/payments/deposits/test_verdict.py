import pytest

from tollhouse.payments.chain.replies import Block, Receipt
from tollhouse.payments.ledger.types import Transfer
from tollhouse.payments.reorganisation import ChainView, MinedTransfer, verdict

TX, HEIGHT = "0xt", 100
CREDIT = MinedTransfer(Transfer("1", "treasury", "agent:a", 1_000_000, "deposit"), TX, HEIGHT, "0xmine")


def receipt(block_hash: str, number: int = HEIGHT) -> Receipt:
    return Receipt(TX, number, block_hash, is_success=True, logs=(), gas_used=1, effective_gas_price=1)


def chain_of(*hashes: str, first: int = HEIGHT - 1) -> dict[int, Block | None]:
    """Blocks that follow from one another."""
    parents = ("0xbefore", *hashes)
    heads = [Block(first + n, own, parents[n], 0, 0) for n, own in enumerate(hashes)]
    return {block.number: block for block in heads}


OURS = chain_of("0xa", "0xmine", "0xc")
OTHER = chain_of("0xa", "0xother", "0xd")


@pytest.mark.parametrize(
    ("blocks", "found", "expected"),
    [
        (OURS, receipt("0xmine"), "stands"),
        (OURS, None, "unknown"),
        (OURS, receipt("0xc", HEIGHT + 1), "unknown"),
        (OURS, receipt("0xother"), "unknown"),
        (OTHER, None, "removed"),
        (OTHER, receipt("0xd", HEIGHT + 1), "removed"),
        (OTHER, receipt("0xother"), "removed"),
        (OTHER, receipt("0xmine"), "unknown"),
        (OTHER, receipt("0xlost", HEIGHT + 1), "unknown"),
        (OTHER, receipt("0xfar", HEIGHT + 9), "unknown"),
        (OTHER | {HEIGHT + 1: None}, None, "removed"),
        (OTHER | {HEIGHT: None}, None, "unknown"),
        (OTHER | {HEIGHT - 1: None}, None, "unknown"),
        (OTHER | chain_of("0xe", first=HEIGHT - 1), None, "unknown"),
        (OTHER | chain_of("0xe", first=HEIGHT + 1), None, "unknown"),
        ({}, None, "unknown"),
    ],
    ids=[
        "in its block",
        "its block stands and the receipt is gone",
        "its block stands and the receipt names another",
        "its block stands and the receipt names one that is not canonical",
        "another block stands and the receipt is gone",
        "mined again in a later block",
        "mined again at the same height",
        "another block stands and the receipt names the old one",
        "the receipt names a later block that is not canonical",
        "the receipt names a block nobody was asked for",
        "another block stands and is the newest",
        "no block at its height",
        "no block before it",
        "a block that does not follow from the one before",
        "a block that the next does not follow from",
        "no blocks at all",
    ],
)
def test_deposit_is_removed_only_on_consistent_evidence(blocks, found, expected):
    assert verdict(CREDIT, ChainView(HEIGHT + 1, {TX: found}, blocks)) == expected
