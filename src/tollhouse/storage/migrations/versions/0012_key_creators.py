"""API keys: who created each, so that the limit of keys per email address holds per creator."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """Add the column. Keys of the operator, and those of before, have no creator."""
    op.add_column("api_key", sa.Column("created_by", sa.LargeBinary))
