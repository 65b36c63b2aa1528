"""An index of reversals by account: a balance does not read those of others."""

from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Add the index, of reversals only."""
    op.execute("CREATE INDEX transfer_reversed ON transfer (debit) WHERE kind = 'reversal'")
