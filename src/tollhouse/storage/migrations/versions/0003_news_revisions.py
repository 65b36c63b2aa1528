"""At which revision of its feed each event, article, story and entity last changed."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """What is stored already counts as changed at revision 0: whoever starts reads all of it anyway."""
    for table in ("event", "article", "story", "entity"):
        op.add_column(table, sa.Column("revision", sa.Integer, nullable=False, server_default="0"))
        op.create_index(f"{table}_by_revision", table, ["pool", "revision"])
