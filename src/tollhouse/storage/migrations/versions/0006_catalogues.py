"""Catalogues of things, each thing's newest form, and the prices it has had."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Make the catalogues' tables."""
    op.create_table(
        "catalogue",
        sa.Column("name", sa.String(40), primary_key=True),
        sa.Column("epoch", sa.String(32), nullable=False),
        sa.Column("revision", sa.Integer, nullable=False),
    )
    op.create_table(
        "catalogue_item",
        sa.Column("catalogue", sa.String(40), primary_key=True),
        sa.Column("id", sa.String(200), primary_key=True),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.Column("removed", sa.Boolean, nullable=False),
        sa.Column("created_at", sa.String(20), nullable=False),
        sa.Column("updated_at", sa.String(20), nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
    op.create_index("catalogue_item_by_revision", "catalogue_item", ["catalogue", "revision", "id"])
    op.create_table(
        "catalogue_price",
        sa.Column("catalogue", sa.String(40), primary_key=True),
        sa.Column("item_id", sa.String(200), primary_key=True),
        sa.Column("revision", sa.Integer, primary_key=True),
        sa.Column("at", sa.String(20), nullable=False),
        sa.Column("price_micros", sa.BigInteger, nullable=False),
        sa.Column("current_micros", sa.BigInteger, nullable=False),
    )
