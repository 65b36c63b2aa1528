"""Webhooks as queues: which endpoint has something due, and which events are not handed to their endpoints yet."""

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"


def upgrade() -> None:
    """Add columns and indexes. Every endpoint is looked at once; stored events have their deliveries already."""
    op.add_column("webhook_endpoint", sa.Column("next_due_at", sa.Double, server_default="0"))
    op.add_column("webhook_endpoint", sa.Column("is_suspect", sa.Integer, nullable=False, server_default="0"))
    op.create_index("webhook_endpoint_due", "webhook_endpoint", ["is_suspect", "next_due_at"])
    op.add_column("webhook_event", sa.Column("endpoint_id", sa.String(40)))
    op.add_column("webhook_event", sa.Column("fan_out_after", sa.String(40)))
    waiting, pending, leased = (
        sa.text(condition) for condition in ("fan_out_after IS NOT NULL", "state = 'pending'", "lease IS NOT NULL")
    )
    op.create_index(
        "webhook_event_fan_out", "webhook_event", ["created_at", "id"], postgresql_where=waiting, sqlite_where=waiting
    )
    op.create_index(
        "webhook_delivery_pending", "webhook_delivery", ["endpoint_id", "due_at", "id"],
        postgresql_where=pending, sqlite_where=pending,
    )  # fmt: skip
    op.create_index(
        "webhook_delivery_leased", "webhook_delivery", ["endpoint_id"], postgresql_where=leased, sqlite_where=leased
    )
    op.create_index("webhook_delivery_created", "webhook_delivery", ["created_at"])
