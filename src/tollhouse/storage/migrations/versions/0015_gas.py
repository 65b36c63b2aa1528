"""What gas cost each day, and the payers whose transaction failed (x402)."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "x402_gas_day",
        sa.Column("day", sa.String(10), primary_key=True),
        sa.Column("spent_nanos", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "x402_refused",
        sa.Column("subject", sa.String(66), primary_key=True),
        sa.Column("failures", sa.Integer, nullable=False),
        sa.Column("failed_at", sa.Double, nullable=False),
        sa.Column("refused_until", sa.Double, nullable=False),
    )
    op.create_index("x402_refused_failed", "x402_refused", ["failed_at"])
