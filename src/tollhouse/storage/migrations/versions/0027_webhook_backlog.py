"""The number of webhook deliveries of each endpoint in each state, counted by the database as they change."""

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"

_ADDED = "SELECT endpoint_id, state, 1 AS number FROM added"
_REMOVED = "SELECT endpoint_id, state, -1 AS number FROM removed"
_CHANGES = {
    "INSERT": ("NEW TABLE AS added", _ADDED),
    "DELETE": ("OLD TABLE AS removed", _REMOVED),
    "UPDATE": ("NEW TABLE AS added OLD TABLE AS removed", f"{_ADDED} UNION ALL {_REMOVED}"),
}
# In one order, so that no two transactions wait for each other.
POSTGRES = """CREATE FUNCTION count_webhook_deliveries_{name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO webhook_backlog AS known (endpoint_id, state, deliveries)
    SELECT endpoint_id, state, sum(number) FROM ({changes}) AS changed
    GROUP BY endpoint_id, state HAVING sum(number) <> 0 ORDER BY endpoint_id, state
    ON CONFLICT (endpoint_id, state) DO UPDATE SET deliveries = known.deliveries + excluded.deliveries;
    RETURN NULL; END $$"""
POSTGRES_TRIGGER = """CREATE TRIGGER webhook_delivery_{name} AFTER {change} ON webhook_delivery
    REFERENCING {tables} FOR EACH STATEMENT EXECUTE FUNCTION count_webhook_deliveries_{name}()"""
_COUNT_ADDED = """INSERT INTO webhook_backlog VALUES (new.endpoint_id, new.state, 1)
    ON CONFLICT (endpoint_id, state) DO UPDATE SET deliveries = deliveries + 1;"""
_COUNT_REMOVED = """UPDATE webhook_backlog SET deliveries = deliveries - 1
    WHERE endpoint_id = old.endpoint_id AND state = old.state;"""
SQLITE = (
    f"CREATE TRIGGER webhook_delivery_insert AFTER INSERT ON webhook_delivery BEGIN {_COUNT_ADDED} END",
    f"CREATE TRIGGER webhook_delivery_delete AFTER DELETE ON webhook_delivery BEGIN {_COUNT_REMOVED} END",
    f"""CREATE TRIGGER webhook_delivery_update AFTER UPDATE OF state ON webhook_delivery WHEN old.state <> new.state
    BEGIN {_COUNT_REMOVED} {_COUNT_ADDED} END""",
)


def upgrade() -> None:
    """Add the table, count what is stored, and index deliveries by their creation instead of when they are due."""
    op.create_table(
        "webhook_backlog",
        sa.Column("endpoint_id", sa.String(40), primary_key=True),
        sa.Column("state", sa.String(10), primary_key=True),
        sa.Column("deliveries", sa.BigInteger, nullable=False),
    )
    # Those that are due have an index of their own since 0025.
    op.create_index("webhook_delivery_made", "webhook_delivery", ["endpoint_id", "state", "created_at"])
    op.drop_index("webhook_delivery_due", "webhook_delivery")
    if op.get_bind().dialect.name == "sqlite":
        statements = list(SQLITE)
    else:
        statements = [
            statement.format(name=change.lower(), change=change, tables=tables, changes=changes)
            for change, (tables, changes) in _CHANGES.items()
            for statement in (POSTGRES, POSTGRES_TRIGGER)
        ]
    # Triggers first: on PostgreSQL they let no other change anything until the rows are counted.
    for statement in statements:
        op.execute(statement)
    op.execute("INSERT INTO webhook_backlog SELECT endpoint_id, state, count(*) FROM webhook_delivery GROUP BY 1, 2")
