"""Alembic's door: `storage.migrate` hands the connection in; nothing is read from a file."""

from alembic import context

context.run_migrations()
