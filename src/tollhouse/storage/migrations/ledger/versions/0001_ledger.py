"""Accounts, transfers and what became of the reservations, the answers kept with them."""

from alembic import op

revision = "0001"
down_revision = None

# `{int}` holds 64 bits in both databases; on SQLite an INTEGER PRIMARY KEY is the row's place in the file.
TABLES = """
CREATE TABLE account (
    name TEXT PRIMARY KEY,
    balance {int} NOT NULL,
    reserved {int} NOT NULL,
    total_in {int} NOT NULL,
    total_out {int} NOT NULL,
    posted_count {int} NOT NULL,
    last_at {float}
) {by_key};
CREATE TABLE transfer (
    seq {int} PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    debit TEXT NOT NULL,
    credit TEXT NOT NULL,
    amount {int} NOT NULL CHECK (amount >= 0),
    kind TEXT NOT NULL,
    memo TEXT,
    at {float} NOT NULL,
    is_reservation {flag} NOT NULL,
    owner {int} NOT NULL,
    number {int} NOT NULL,
    CHECK (debit <> credit)
);
CREATE INDEX transfer_by_kind ON transfer (kind, at);
CREATE INDEX transfer_by_debit ON transfer (debit, seq);
CREATE INDEX transfer_by_credit ON transfer (credit, seq);
CREATE TABLE resolution (
    seq {int} PRIMARY KEY,
    state TEXT NOT NULL CHECK (state IN ('posted', 'voided')),
    at {float} NOT NULL
);
CREATE TABLE open_reservation (
    seq {int} PRIMARY KEY,
    fingerprint {bytes} NOT NULL
);
CREATE TABLE kept (
    seq {int} PRIMARY KEY,
    fingerprint {bytes} NOT NULL,
    at {float} NOT NULL,
    head {bytes} NOT NULL,
    hash {bytes} NOT NULL
);
CREATE TABLE kept_body (
    hash {bytes} PRIMARY KEY,
    body {bytes} NOT NULL
)"""
SQLITE = {"int": "INTEGER", "float": "REAL", "bytes": "BLOB", "flag": "INTEGER", "by_key": "WITHOUT ROWID"}
POSTGRES = {"int": "BIGINT", "float": "DOUBLE PRECISION", "bytes": "BYTEA", "flag": "BOOLEAN", "by_key": ""}

REFUSE = """CREATE FUNCTION refuse_to_change_the_ledger() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'rows of % are never changed', TG_TABLE_NAME; END $$"""


def upgrade() -> None:
    """Make the tables, and have the database itself refuse to change what was written."""
    is_sqlite = op.get_context().dialect.name == "sqlite"
    for statement in TABLES.format(**(SQLITE if is_sqlite else POSTGRES)).split(";"):
        op.execute(statement)
    if is_sqlite:
        _guard_sqlite()
    else:
        _guard_postgres()


def _guard_sqlite() -> None:
    for table in ("transfer", "resolution"):
        for change in ("UPDATE", "DELETE"):
            op.execute(
                f"CREATE TRIGGER {table}_refuses_{change.lower()} BEFORE {change} ON {table} "
                f"BEGIN SELECT RAISE(ABORT, 'rows of {table} are never changed'); END"
            )


def _guard_postgres() -> None:
    op.execute(REFUSE)
    for table in ("transfer", "resolution"):
        op.execute(
            f"CREATE TRIGGER {table}_refuses_changes BEFORE UPDATE OR DELETE OR TRUNCATE ON {table} "
            "EXECUTE FUNCTION refuse_to_change_the_ledger()"
        )
