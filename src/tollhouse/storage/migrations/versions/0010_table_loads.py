"""Declared tables: what became of the newest edit of each table's file."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "table_load",
        sa.Column("name", sa.String(40), primary_key=True),
        sa.Column("catalogue", sa.String(40), nullable=False),
        sa.Column("fingerprint", sa.String(64), nullable=False),
        sa.Column("seen_at", sa.String(20), nullable=False),
        sa.Column("loaded_at", sa.String(20), nullable=False),
        sa.Column("row_count", sa.Integer, nullable=False),
        sa.Column("refused_count", sa.Integer, nullable=False),
        sa.Column("refused", sa.LargeBinary, nullable=False),
        sa.Column("fault", sa.Text, nullable=False),
    )
