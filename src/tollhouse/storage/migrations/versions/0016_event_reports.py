"""Reports of pages, from which events are resolved; the server builds the events of one page each again."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
# Earlier versions cannot read the new events, and write one for each page.
is_breaking = True


def upgrade() -> None:
    """Make the table of reports. The next start fills it and replaces the events; event_story is unused."""
    op.create_table(
        "event_report",
        sa.Column("pool", sa.String(10), primary_key=True),
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("last_slot", sa.String(14), nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.Column("revision", sa.Integer, nullable=False, server_default="0"),
    )
    op.create_index("event_report_by_slot", "event_report", ["pool", "last_slot"])
    op.create_index("event_report_by_revision", "event_report", ["pool", "revision"])
