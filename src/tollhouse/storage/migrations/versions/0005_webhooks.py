"""Webhook endpoints, the outbox of what is to be told, and every attempt at telling it."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Make the webhook tables."""
    op.create_table(
        "webhook_endpoint",
        sa.Column("id", sa.String(40), primary_key=True),
        sa.Column("service", sa.String(16), nullable=False, index=True),
        sa.Column("url", sa.String(2000), nullable=False),
        sa.Column("email", sa.String(320), nullable=False),
        sa.Column("types", sa.String(1000), nullable=False),
        sa.Column("secret", sa.String(64), nullable=False),
        sa.Column("former_secret", sa.String(64)),
        sa.Column("former_until", sa.Double),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("removed_at", sa.Double),
        sa.Column("disabled_at", sa.Double),
        sa.Column("disabled_reason", sa.String(200)),
        sa.Column("failing_since", sa.Double),
        sa.Column("failures", sa.Integer, nullable=False),
        sa.Column("last_error", sa.String(40)),
        sa.Column("last_success_at", sa.Double),
        sa.Column("held_until", sa.Double, nullable=False),
    )
    op.create_table(
        "webhook_event",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("service", sa.String(16), nullable=False),
        sa.Column("type", sa.String(64), nullable=False),
        sa.Column("subject_id", sa.String(200), nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False, index=True),
    )
    op.create_table(
        "webhook_delivery",
        sa.Column("id", sa.String(40), primary_key=True),
        sa.Column("event_id", sa.String(64), nullable=False),
        sa.Column("endpoint_id", sa.String(40), nullable=False),
        sa.Column("state", sa.String(10), nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("due_at", sa.Double, nullable=False),
        sa.Column("tries", sa.Integer, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("lease", sa.String(32)),
        sa.Column("finished_at", sa.Double),
        sa.Column("last_status", sa.Integer),
        sa.Column("last_error", sa.String(40)),
    )
    op.create_index("webhook_delivery_once", "webhook_delivery", ["event_id", "endpoint_id"], unique=True)
    op.create_index("webhook_delivery_due", "webhook_delivery", ["endpoint_id", "state", "due_at"])
    op.create_table(
        "webhook_attempt",
        sa.Column("delivery_id", sa.String(40), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("status", sa.Integer),
        sa.Column("error", sa.String(40)),
        sa.Column("duration_ms", sa.Integer, nullable=False),
    )
