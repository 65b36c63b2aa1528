"""Which articles and events changed since a reader last looked."""

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Nothing yet."""
