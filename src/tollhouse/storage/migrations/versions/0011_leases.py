"""Leases: which process holds a role, such as the background work, and until when."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "lease",
        sa.Column("role", sa.String(64), primary_key=True),
        sa.Column("token", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.Double, nullable=False),
    )
    op.create_index("lease_token", "lease", ["role", "token"], unique=True)
