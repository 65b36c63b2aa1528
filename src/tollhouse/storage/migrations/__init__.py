"""Migrations of the schema, and the door through which Alembic runs them."""
