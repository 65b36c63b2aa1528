"""The events, stories and entities that were removed, recorded by the database: readers need not compare all rows."""

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"

# By table: its feed, and its column for time.
_TABLES = {"event": ("events", "last_slot"), "story": ("news", "last_seen"), "entity": ("news", "last_seen")}
_REPLACE = "ON CONFLICT (source, pool, id) DO UPDATE SET moment = excluded.moment, revision = excluded.revision"
SQLITE = """CREATE TRIGGER {table}_removed AFTER DELETE ON {table} BEGIN
    INSERT INTO removed_row (source, pool, id, moment, revision) VALUES ('{table}', old.pool, old.id, old.{moment},
        coalesce((SELECT revision FROM feed_revision WHERE feed = '{feed}'), 0)) {replace}; END"""
# The revision is locked: it grows no further before the removal is visible.
POSTGRES = """CREATE FUNCTION record_removed_{table}() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE number integer; BEGIN
    IF NOT EXISTS (SELECT FROM removed) THEN RETURN NULL; END IF;
    INSERT INTO feed_revision (feed, revision) VALUES ('{feed}', 0) ON CONFLICT DO NOTHING;
    SELECT revision INTO number FROM feed_revision WHERE feed = '{feed}' FOR UPDATE;
    INSERT INTO removed_row (source, pool, id, moment, revision)
    SELECT '{table}', pool, id, {moment}, number FROM removed {replace};
    RETURN NULL; END $$"""
POSTGRES_TRIGGER = """CREATE TRIGGER {table}_removed AFTER DELETE ON {table} REFERENCING OLD TABLE AS removed
    FOR EACH STATEMENT EXECUTE FUNCTION record_removed_{table}()"""


def upgrade() -> None:
    """Add the table and its triggers."""
    op.create_table(
        "removed_row",
        sa.Column("source", sa.String(10), primary_key=True),
        sa.Column("pool", sa.String(10), primary_key=True),
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("moment", sa.String(14), nullable=False),
        sa.Column("revision", sa.Integer, nullable=False),
    )
    op.create_index("removed_row_by_revision", "removed_row", ["source", "pool", "revision"])
    op.create_index("removed_row_by_moment", "removed_row", ["source", "pool", "moment"])
    templates = (SQLITE,) if op.get_bind().dialect.name == "sqlite" else (POSTGRES, POSTGRES_TRIGGER)
    for table, (feed, moment) in _TABLES.items():
        for template in templates:
            op.execute(template.format(table=table, feed=feed, moment=moment, replace=_REPLACE))
