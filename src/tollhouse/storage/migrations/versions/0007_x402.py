"""Payments sent with calls (x402): claimed once each, with the answer they bought and their receipt."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "x402_payment",
        sa.Column("payer", sa.String(42), primary_key=True),
        sa.Column("nonce", sa.String(66), primary_key=True),
        sa.Column("state", sa.String(10), nullable=False),
        sa.Column("lease", sa.String(32), nullable=False),
        sa.Column("lease_until", sa.Double, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("payment", sa.LargeBinary, nullable=False),
        sa.Column("requirement", sa.LargeBinary, nullable=False),
        sa.Column("digest", sa.LargeBinary, nullable=False),
        sa.Column("fingerprint", sa.LargeBinary, nullable=False),
        sa.Column("payment_id", sa.String(128)),
        sa.Column("resource_url", sa.Text, nullable=False),
        sa.Column("since_block", sa.BigInteger, nullable=False),
        sa.Column("claimed_at", sa.Double, nullable=False),
        sa.Column("answer", sa.LargeBinary),
        sa.Column("reason", sa.String(100)),
        sa.Column("tx_hash", sa.String(66)),
        sa.Column("block_number", sa.BigInteger),
        sa.Column("receipt", sa.Text),
        sa.Column("settled_at", sa.Double),
        sa.Column("delivered_at", sa.Double),
    )
    # A payer's own names for its payments; most have none, and none collide.
    op.create_index("x402_payment_id", "x402_payment", ["payer", "payment_id"], unique=True)
    op.create_index("x402_payment_open", "x402_payment", ["state", "lease_until"])
    op.create_index("x402_payment_settled", "x402_payment", ["settled_at"])
