"""Upgrades through Stripe: who pays for which key, and which events were heard."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "checkout_account",
        sa.Column("key_id", sa.String(32), primary_key=True),
        sa.Column("customer_id", sa.String(255), unique=True),
        sa.Column("customer_tries", sa.Integer, nullable=False),
        sa.Column("session_id", sa.String(255)),
        sa.Column("session_price", sa.String(255)),
        sa.Column("session_expires_at", sa.Double),
        sa.Column("sessions", sa.Integer, nullable=False),
        sa.Column("looks", sa.Integer, nullable=False),
        sa.Column("look_applied", sa.Integer, nullable=False),
        sa.Column("look_again_at", sa.Double, index=True),
        sa.Column("tier_given", sa.String(16), nullable=False),
        sa.Column("subscription_id", sa.String(255)),
        sa.Column("subscription_status", sa.String(32)),
        sa.Column("price_id", sa.String(255)),
        sa.Column("cancels_at_period_end", sa.Boolean, nullable=False),
        sa.Column("period_ends_at", sa.Double),
    )
    op.create_table(
        "checkout_event",
        sa.Column("id", sa.String(255), primary_key=True),
        sa.Column("type", sa.String(100), nullable=False),
        sa.Column("created", sa.Double, nullable=False),
        sa.Column("heard_at", sa.Double, nullable=False, index=True),
    )
