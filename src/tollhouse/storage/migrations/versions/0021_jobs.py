"""Leases of jobs: the process that holds each, and until when another one requests it."""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"


def upgrade() -> None:
    """Add the columns."""
    op.add_column("lease", sa.Column("holder", sa.String(100)))
    op.add_column("lease", sa.Column("requested_until", sa.Double, nullable=False, server_default="0"))
