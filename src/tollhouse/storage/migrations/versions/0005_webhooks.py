"""Webhook endpoints, the outbox of what is to be told, and every attempt at telling it."""

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Nothing yet."""
