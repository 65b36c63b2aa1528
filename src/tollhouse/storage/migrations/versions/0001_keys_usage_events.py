"""Keys, the server's own secrets, usage on PostgreSQL, and the defense feed's slots, rows and events."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make the first tables."""
    op.create_table(
        "api_key",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("hash", sa.LargeBinary, nullable=False, unique=True),
        sa.Column("email", sa.String(320), nullable=False, index=True),
        sa.Column("tier", sa.String(16), nullable=False),
        sa.Column("label", sa.String(100)),
        sa.Column("per_day", sa.Integer),
        sa.Column("per_minute", sa.Integer),
        sa.Column("created_at", sa.String(20), nullable=False),
        sa.Column("revoked_at", sa.String(20)),
    )
    op.create_table(
        "server_secret",
        sa.Column("name", sa.String(32), primary_key=True),
        sa.Column("value", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "tally",
        sa.Column("subject", sa.String(200), primary_key=True),
        sa.Column("day", sa.Integer, nullable=False),
        sa.Column("used", sa.Integer, nullable=False),
        sa.Column("recent", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "gdelt_slot",
        sa.Column("slot", sa.String(14), primary_key=True),
        sa.Column("pool", sa.String(10), nullable=False, index=True),
        sa.Column("origin", sa.String(10), nullable=False),
        sa.Column("md5", sa.String(32), nullable=False),
        sa.Column("rows", sa.Integer, nullable=False),
        sa.Column("bad_rows", sa.Integer, nullable=False),
        sa.Column("ingested_at", sa.String(20), nullable=False),
    )
    op.create_table(
        "event_rows",
        sa.Column("event_id", sa.String(32), primary_key=True),
        sa.Column("slot", sa.String(14), primary_key=True, index=True),
        sa.Column("pool", sa.String(10), nullable=False),
        sa.Column("rows", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "event",
        sa.Column("pool", sa.String(10), primary_key=True),
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("last_slot", sa.String(14), nullable=False),
        sa.Column("record", sa.LargeBinary, nullable=False),
    )
    op.create_index("event_by_slot", "event", ["pool", "last_slot"])
    op.create_table(
        "feed_revision",
        sa.Column("feed", sa.String(20), primary_key=True),
        sa.Column("revision", sa.Integer, nullable=False),
    )
    op.create_table(
        "source_health",
        sa.Column("source", sa.String(200), primary_key=True),
        sa.Column("last_success_at", sa.String(20)),
        sa.Column("last_error_at", sa.String(20)),
        sa.Column("last_error", sa.String(500)),
        sa.Column("failures", sa.Integer, nullable=False),
    )
