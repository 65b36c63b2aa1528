"""Sums of accounts by kind, minute and hour, and the last transfer in them: see `Store.sum_up`."""

import zlib

from alembic import op

revision = "0006"
down_revision = "0005"

TABLES = """
CREATE TABLE period_sum (
    account TEXT NOT NULL,
    kind TEXT NOT NULL,
    width {int} NOT NULL,
    at {float} NOT NULL,
    is_credit {flag} NOT NULL,
    amount {int} NOT NULL,
    transfers {int} NOT NULL,
    PRIMARY KEY (account, kind, width, at, is_credit)
) {by_key};
CREATE TABLE period_sum_end (
    id {int} PRIMARY KEY CHECK (id = 1),
    seq {int} NOT NULL
)"""
SQLITE = {"int": "INTEGER", "float": "REAL", "flag": "INTEGER", "by_key": "WITHOUT ROWID"}
POSTGRES = {"int": "BIGINT", "float": "DOUBLE PRECISION", "flag": "BOOLEAN", "by_key": ""}

# The last transfer before the first open reservation; NULL without any that is not summed up. A batch in progress has
# numbers that are not committed yet, and batches hold this lock shared.
FINAL = f"""CREATE FUNCTION ledger_final_seq() RETURNS BIGINT LANGUAGE plpgsql AS
$$ BEGIN
    IF EXISTS (SELECT FROM transfer WHERE seq > coalesce((SELECT max(seq) FROM period_sum_end), 0)) THEN
        PERFORM pg_advisory_xact_lock({zlib.crc32(b"ledger")});
        RETURN (SELECT max(seq) FROM transfer
            WHERE seq < coalesce((SELECT min(seq) FROM every_open_reservation), 9223372036854775807));
    END IF;
    RETURN NULL;
END $$"""  # noqa: S608 - our own text


def upgrade() -> None:
    """Create the tables, empty: the transfers that are there are summed up in the background."""
    is_sqlite = op.get_context().dialect.name == "sqlite"
    for statement in TABLES.format(**(SQLITE if is_sqlite else POSTGRES)).split(";"):
        op.execute(statement)
    if not is_sqlite:
        op.execute(FINAL)
