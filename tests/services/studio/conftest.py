"""The studio service alone on the real server, with a document that tests may edit."""

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.http.conftest import asgi_client
from tests.servers.databases import migrated_copy
from tollhouse import app
from tollhouse.config.settings import Settings
from tollhouse.services.studio.service import bundled
from tollhouse.services.studio.settings import StudioSettings


@pytest.fixture
def document(tmp_path):
    return shutil.copy(bundled(), tmp_path / "studio.yaml")


@pytest.fixture
def studio(tmp_path):
    """Starts the service over a file."""
    data_dir = migrated_copy(tmp_path / "data")

    @asynccontextmanager
    async def start(file="") -> AsyncIterator[Any]:
        settings = Settings(
            data_dir=str(data_dir),
            service="studio",
            background_work=False,
            sections=(StudioSettings(studio_file=str(file)),),
        )
        async with app.serving(settings) as server, asgi_client(server.handle) as client:
            yield client

    return start
