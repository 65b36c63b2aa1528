"""A reservation may be charged for less than was reserved: what it was charged, where that is not all of it."""

from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add the column. Rows without it were charged in full."""
    op.execute("ALTER TABLE resolution ADD COLUMN amount BIGINT")
