"""When each key was changed last, for the processes that remember it.

Set by a trigger, so that changes by servers of earlier versions and by hand are noticed, too.
"""

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"

COLUMNS = "hash, tier, label, per_day, per_minute, revoked_at"
SQLITE = f"""CREATE TRIGGER api_key_changes AFTER UPDATE OF {COLUMNS} ON api_key BEGIN
    UPDATE api_key SET changed_in = (SELECT coalesce(max(changed_in), 0) + 1 FROM api_key) WHERE id = new.id;
    END"""  # noqa: S608 - our text
POSTGRES = (
    """CREATE FUNCTION record_key_change() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN NEW.changed_in = txid_current(); RETURN NEW; END $$""",
    f"""CREATE TRIGGER api_key_changes BEFORE UPDATE OF {COLUMNS} ON api_key
        FOR EACH ROW EXECUTE FUNCTION record_key_change()""",
)


def upgrade() -> None:
    """Add the column, its index and the trigger."""
    op.add_column("api_key", sa.Column("changed_in", sa.BigInteger))
    op.create_index("ix_api_key_changed_in", "api_key", ["changed_in"])
    for statement in (SQLITE,) if op.get_bind().dialect.name == "sqlite" else POSTGRES:
        op.execute(statement)
