"""A process that evaluates every alert once, and dies at a failpoint."""

import asyncio

from tollhouse import failpoints
from tollhouse.config.settings import Settings
from tollhouse.services.defense.alerts.monitor import AlertMonitor
from tollhouse.storage.database import open_database


def evaluate_once(database_url: str, place: str) -> None:
    failpoints.arm(place)
    database = open_database(Settings(database_url=database_url))
    asyncio.run(AlertMonitor(database, recorded=None, plans=["enterprise"]).run_once())
