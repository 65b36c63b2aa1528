"""Indexes for the deletion of what x402 payments no longer need."""

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"


def upgrade() -> None:
    """Add the indexes."""
    stored = sa.text("answer IS NOT NULL")
    op.create_index(
        "x402_payment_answered", "x402_payment", ["settled_at"], postgresql_where=stored, sqlite_where=stored
    )
    op.create_index("x402_attempt_sent", "x402_attempt", ["sent_at"])
