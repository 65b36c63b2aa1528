"""Statistics of calls: series, the usage of callers, the newest calls, and the last result of checks."""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"

BUCKETS = 15


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "call_series",
        sa.Column("step", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("dimension", sa.String(12), primary_key=True),
        sa.Column("at", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("label", sa.String(200), primary_key=True),
        sa.Column("requests", sa.BigInteger, nullable=False),
        sa.Column("refused", sa.BigInteger, nullable=False),
        sa.Column("failed", sa.BigInteger, nullable=False),
        sa.Column("seconds", sa.Double, nullable=False),
        *(sa.Column(f"bucket_{number}", sa.BigInteger, nullable=False) for number in range(BUCKETS)),
    )
    op.create_table(
        "caller_usage",
        sa.Column("step", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("at", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("kind", sa.String(12), primary_key=True),
        sa.Column("subject", sa.String(80), primary_key=True),
        sa.Column("plan", sa.String(64), nullable=False),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("requests", sa.BigInteger, nullable=False),
        sa.Column("refused", sa.BigInteger, nullable=False),
        sa.Column("failed", sa.BigInteger, nullable=False),
        sa.Column("charged_micros", sa.BigInteger, nullable=False),
    )
    op.create_index("caller_usage_by_subject", "caller_usage", ["subject", "step", "at"])
    op.create_table(
        "recent_call",
        sa.Column("id", sa.String(40), primary_key=True),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("is_refused", sa.Boolean, nullable=False),
        sa.Column("request_id", sa.String(128), nullable=False),
        sa.Column("service", sa.String(64), nullable=False),
        sa.Column("operation", sa.String(128), nullable=False),
        sa.Column("method", sa.String(10), nullable=False),
        sa.Column("path", sa.String(200), nullable=False),
        sa.Column("status", sa.Integer, nullable=False),
        sa.Column("code", sa.String(40), nullable=False),
        sa.Column("detail", sa.String(300), nullable=False),
        sa.Column("seconds", sa.Double, nullable=False),
        sa.Column("kind", sa.String(12), nullable=False),
        sa.Column("subject", sa.String(80), nullable=False),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("plan", sa.String(64), nullable=False),
        sa.Column("payment", sa.String(12), nullable=False),
        sa.Column("charged_micros", sa.BigInteger, nullable=False),
    )
    op.create_index("recent_call_by_age", "recent_call", ["is_refused", "at"])
    op.create_table(
        "check_result",
        sa.Column("name", sa.String(40), primary_key=True),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
