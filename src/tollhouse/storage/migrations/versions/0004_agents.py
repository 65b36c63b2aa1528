"""Wallets that are registered as agents."""

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Nothing yet."""
