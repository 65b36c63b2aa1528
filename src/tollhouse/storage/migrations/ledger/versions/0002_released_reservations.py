"""A reservation that was never resolved may be deleted: its id is free again. Every other row stays as it is."""

from alembic import op

revision = "0002"
down_revision = "0001"

SQLITE = """CREATE TRIGGER transfer_refuses_delete BEFORE DELETE ON transfer
    WHEN NOT OLD.is_reservation OR EXISTS (SELECT 1 FROM resolution WHERE seq = OLD.seq)
    BEGIN SELECT RAISE(ABORT, 'rows of transfer are never changed'); END"""
POSTGRES = (
    "DROP TRIGGER transfer_refuses_changes ON transfer",
    """CREATE TRIGGER transfer_refuses_changes BEFORE UPDATE OR TRUNCATE ON transfer
    EXECUTE FUNCTION refuse_to_change_the_ledger()""",
    """CREATE FUNCTION refuse_to_delete_a_transfer() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN
        IF OLD.is_reservation AND NOT EXISTS (SELECT FROM resolution WHERE seq = OLD.seq) THEN RETURN OLD; END IF;
        RAISE EXCEPTION 'rows of % are never changed', TG_TABLE_NAME;
    END $$""",
    """CREATE TRIGGER transfer_refuses_delete BEFORE DELETE ON transfer FOR EACH ROW
    EXECUTE FUNCTION refuse_to_delete_a_transfer()""",
)


def upgrade() -> None:
    """Replace the trigger against deletion."""
    if op.get_context().dialect.name == "sqlite":
        op.execute("DROP TRIGGER transfer_refuses_delete")
        op.execute(SQLITE)
        return
    for statement in POSTGRES:
        op.execute(statement)
