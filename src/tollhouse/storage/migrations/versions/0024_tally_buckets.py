"""The sliding window of a usage count in buckets."""

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"


def upgrade() -> None:
    """Add the column where counts are kept in the database; elsewhere it has copies of the day's counts only."""
    op.create_index("tally_by_day", "tally", ["day"])
    if op.get_bind().dialect.name == "postgresql":
        op.add_column("tally", sa.Column("buckets", sa.LargeBinary, nullable=False, server_default=""))
        # Room for the next version of a row beside it: a change then touches no index.
        op.execute("ALTER TABLE tally SET (fillfactor = 50)")
