"""The GKG and mentions files that were read."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "page_file",
        sa.Column("pool", sa.String(10), primary_key=True),
        sa.Column("slot", sa.String(14), primary_key=True),
        sa.Column("kind", sa.String(10), primary_key=True),
        sa.Column("origin", sa.String(10), nullable=False),
        sa.Column("md5", sa.String(32), nullable=False),
        sa.Column("rows", sa.Integer, nullable=False),
        sa.Column("bad_rows", sa.Integer, nullable=False),
        sa.Column("ingested_at", sa.String(20), nullable=False),
    )
