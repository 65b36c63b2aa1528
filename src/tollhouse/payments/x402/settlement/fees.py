"""What is offered for gas, and how much more to replace a transaction that nobody mines."""

from statistics import median_low

from tollhouse.payments.chain.replies import FeeHistory
from tollhouse.payments.x402.settlement.transaction import Fees

BLOCKS_LOOKED_AT = 5
PERCENTILE = 50.0
LEAST_TIP = 1_000_000
"""A thousandth of a gwei: what Base's sequencer asks for at the least."""
MOST_TIP = 100_000_000
"""A tenth of a gwei, a hundred times as much. A tip decides who goes first, and a payment need not: neither a crowd
that outbids itself nor a node that errs may drain the account. What blocks pass by is offered again for more anyway."""

# Nodes ask for a tenth more before they replace a transaction; rounding must not take it away.
_RISE_NUMERATOR, _RISE_DENOMINATOR = 9, 8
MOST_TIMES_THE_QUOTE = 20


def quoted(history: FeeHistory) -> Fees:
    """Twice the next block's base fee, so that six full blocks may come first, and the usual tip within its bounds.

    Where gas itself costs more than the bound, the tip may cost as much as the gas.
    """
    base_fee = history.base_fees[-1]
    tips = [row[0] for row in history.rewards if row]
    usual = median_low(tips) if tips else 0
    tip = min(max(LEAST_TIP, usual), max(MOST_TIP, base_fee))
    return Fees(2 * base_fee + tip, tip)


def risen(fees: Fees) -> Fees:
    """An eighth more of both: enough for a node to take it in place of a transaction with `fees`."""
    return Fees(_rise(fees.max_fee), _rise(fees.tip))


def replacing(old: Fees, quote: Fees) -> Fees | None:
    """What to offer instead of `old`; None where that would be absurdly more than gas costs now."""
    more = risen(old)
    offered = Fees(max(more.max_fee, quote.max_fee), max(more.tip, quote.tip))
    return offered if offered.max_fee <= MOST_TIMES_THE_QUOTE * quote.max_fee else None


def _rise(wei: int) -> int:
    return wei * _RISE_NUMERATOR // _RISE_DENOMINATOR + 1
