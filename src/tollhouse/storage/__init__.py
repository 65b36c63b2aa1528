"""SQLite and PostgreSQL, their migrations, and usage counters that processes share."""
