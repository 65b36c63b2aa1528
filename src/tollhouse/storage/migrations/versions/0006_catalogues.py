"""Catalogues of products, their price history, and what imports did."""

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Nothing yet."""
