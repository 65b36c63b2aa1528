"""Incidents and heartbeats of the status page."""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "incident",
        sa.Column("id", sa.String(40), primary_key=True),
        sa.Column("service", sa.String(64), nullable=False),
        sa.Column("component", sa.String(80), nullable=False),
        sa.Column("title", sa.String(200), nullable=False),
        sa.Column("kind", sa.String(12), nullable=False),
        sa.Column("detail", sa.String(300), nullable=False),
        sa.Column("began_at", sa.Double, nullable=False),
        sa.Column("ended_at", sa.Double),
    )
    op.create_index("incident_by_begin", "incident", ["began_at"])
    op.create_table(
        "heartbeat",
        sa.Column("name", sa.String(40), primary_key=True),
        sa.Column("at", sa.Double, nullable=False),
    )
