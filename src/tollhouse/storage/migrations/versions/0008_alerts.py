"""Alerts: the rules of each key, what they last came to and when they were last told; saved analysis queries."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "alert",
        sa.Column("id", sa.String(40), primary_key=True),
        sa.Column("key_id", sa.String(32), nullable=False, index=True),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("rule", sa.LargeBinary, nullable=False),
        sa.Column("endpoint_id", sa.String(40), nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("changed_at", sa.Double, nullable=False),
        sa.Column("stated_at", sa.Double, nullable=False),
        sa.Column("revision", sa.Integer, nullable=False, index=True),
        sa.Column("is_met", sa.Boolean, nullable=False),
        sa.Column("value", sa.Double),
        sa.Column("is_met_since", sa.Double),
        sa.Column("told_at", sa.Double),
        sa.Column("told_state", sa.String(100)),
    )
    op.create_table(
        "analysis_query",
        sa.Column("id", sa.String(40), primary_key=True),
        sa.Column("key_id", sa.String(32), nullable=False, index=True),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("query", sa.LargeBinary, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
    )
