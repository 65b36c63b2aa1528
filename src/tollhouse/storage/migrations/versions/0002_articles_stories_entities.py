"""Articles, the stories and entities made of them, the newsroom's memory, and records of fatalities."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Make the news tables."""
    op.create_table(
        "article",
        sa.Column("pool", sa.String(10), primary_key=True),
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("published", sa.String(14), nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
    op.create_index("article_by_time", "article", ["pool", "published"])
    for table in ("story", "entity"):
        op.create_table(
            table,
            sa.Column("pool", sa.String(10), primary_key=True),
            sa.Column("id", sa.String(32), primary_key=True),
            sa.Column("last_seen", sa.String(14), nullable=False),
            sa.Column("body", sa.LargeBinary, nullable=False),
        )
        op.create_index(f"{table}_by_time", table, ["pool", "last_seen"])
    op.create_table(
        "event_story",
        sa.Column("pool", sa.String(10), primary_key=True),
        sa.Column("event_id", sa.String(32), primary_key=True),
        sa.Column("story_id", sa.String(32), nullable=False),
    )
    op.create_table(
        "successor",
        sa.Column("pool", sa.String(10), primary_key=True),
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("successor", sa.String(32), nullable=False),
        sa.Column("kind", sa.String(10), nullable=False),
        sa.Column("at", sa.String(14), nullable=False),
    )
    op.create_table(
        "fatality_record",
        sa.Column("provider", sa.String(10), primary_key=True),
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("date", sa.String(10), nullable=False, index=True),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "document",
        sa.Column("name", sa.String(40), primary_key=True),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "newsroom",
        sa.Column("pool", sa.String(10), primary_key=True),
        sa.Column("memory", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "news_feed",
        sa.Column("url", sa.String(500), primary_key=True),
        sa.Column("state", sa.LargeBinary, nullable=False),
    )
