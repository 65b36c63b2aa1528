"""Wallets that are registered as agents."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "agent",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("wallet_address", sa.String(42), nullable=False, unique=True),
        sa.Column("label", sa.String(100)),
        sa.Column("email", sa.String(320)),
        sa.Column("created_at", sa.String(20), nullable=False),
    )
