import pytest

from tests.accounts.subscriptions.shop import opened


@pytest.fixture
async def shop(database_url, tmp_path):
    async with opened(database_url, tmp_path) as shop:
        yield shop


@pytest.fixture
async def small_shop(data_dir):
    """On SQLite: for what the kind of the database has no part in."""
    async with opened(f"sqlite:///{data_dir}/tollhouse.db", data_dir) as shop:
        yield shop
