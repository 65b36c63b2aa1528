"""How many rows of a table's newest edit are not written yet."""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    """Add the column. The tables that are loaded have no rows to be written."""
    op.add_column("table_load", sa.Column("pending_count", sa.Integer, nullable=False, server_default="0"))
