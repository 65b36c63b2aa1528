"""The provider's rows of pages in partitions by day, on PostgreSQL: a day's rows are dropped at once."""

from datetime import timedelta
from itertools import pairwise

from alembic import op

from tollhouse import clock

revision = "0029"
down_revision = "0028"

# Servers of the version before make no partitions, and find these.
_DAYS = 8
_MAKE = (
    "ALTER TABLE event_rows RENAME TO event_rows_before",
    "ALTER INDEX event_rows_pkey RENAME TO event_rows_before_pkey",
    "ALTER INDEX ix_event_rows_slot RENAME TO event_rows_before_slot_idx",
    """CREATE TABLE event_rows (LIKE event_rows_before INCLUDING DEFAULTS, PRIMARY KEY (event_id, slot))
    PARTITION BY RANGE (slot)""",
    "CREATE INDEX ix_event_rows_slot ON event_rows (slot)",
    "CREATE TABLE event_rows_default PARTITION OF event_rows DEFAULT",
)
# A file's name may say a later time.
_MOVE = """WITH moved AS (DELETE FROM event_rows_before WHERE slot >= '{end}' RETURNING *)
    INSERT INTO event_rows_default SELECT * FROM moved"""
_ATTACH = "ALTER TABLE event_rows ATTACH PARTITION event_rows_before FOR VALUES FROM (MINVALUE) TO ('{end}')"
_DAY = """CREATE TABLE event_rows_{day} PARTITION OF event_rows FOR VALUES FROM ('{day}') TO ('{end}')"""


def upgrade() -> None:
    """Make the existing table the partition of all days until today, which no row is copied for."""
    if op.get_bind().dialect.name == "sqlite":
        return
    first = clock.now() + timedelta(days=1)
    days = [f"{first + timedelta(days=ahead):%Y%m%d}" for ahead in range(_DAYS + 1)]
    for statement in (*_MAKE, _MOVE.format(end=days[0]), _ATTACH.format(end=days[0])):
        op.execute(statement)
    # A day of which rows were moved stays in the default partition.
    later = op.get_bind().exec_driver_sql("SELECT count(*) FROM event_rows_default").scalar()
    for day, end in pairwise(days) if not later else ():
        op.execute(_DAY.format(day=day, end=end))
