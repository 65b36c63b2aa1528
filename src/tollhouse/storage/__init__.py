"""Where things are kept: SQLite or PostgreSQL, their migrations, and counters that processes share."""
