"""A random token for each change set of a catalogue, which a restored database has not for later revisions."""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "catalogue_change_set",
        sa.Column("catalogue", sa.String(40), primary_key=True),
        sa.Column("revision", sa.Integer, primary_key=True),
        sa.Column("token", sa.String(16), nullable=False),
    )
