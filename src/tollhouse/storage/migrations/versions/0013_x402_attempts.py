"""The transactions that may carry out a payment (x402), recorded before they are broadcast."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "x402_attempt",
        sa.Column("payer", sa.String(42), primary_key=True),
        sa.Column("nonce", sa.String(66), primary_key=True),
        # Empty while a remote facilitator was asked and has not replied.
        sa.Column("tx_hash", sa.String(66), primary_key=True),
        sa.Column("requested_by", sa.String(64), nullable=False),
        sa.Column("sent_at", sa.Double, nullable=False),
    )
