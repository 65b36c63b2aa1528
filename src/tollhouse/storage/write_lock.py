"""A turn to write an SQLite file that other processes write too."""

import sqlite3
import time

ASK_AGAIN_SECONDS = 0.0005


def take_turn(connection: sqlite3.Connection, seconds: float) -> None:
    """Begin a transaction that writes; waits for others at most so long. Raises sqlite3.OperationalError.

    SQLite's own way to wait sleeps longer and longer, and starves.
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(ASK_AGAIN_SECONDS)
        else:
            return
