"""Webhook secrets: room for the encrypted form. The server encrypts the rows that are stored when it starts."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
# Earlier versions cannot decrypt the secrets.
is_breaking = True


def upgrade() -> None:
    """Widen the columns."""
    with op.batch_alter_table("webhook_endpoint") as table:
        table.alter_column("secret", type_=sa.String(200), existing_type=sa.String(64), existing_nullable=False)
        table.alter_column("former_secret", type_=sa.String(200), existing_type=sa.String(64))
