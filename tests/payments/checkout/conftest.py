import pytest

from tests.payments.checkout.shop import opened


@pytest.fixture
async def shop(database_url, tmp_path):
    async with opened(database_url, tmp_path) as shop:
        yield shop


@pytest.fixture
async def small_shop(tmp_path):
    """On SQLite: for what the kind of the database has no part in."""
    async with opened(f"sqlite:///{tmp_path}/tollhouse.db", tmp_path) as shop:
        yield shop
