import pytest

from tests.catalogue.plain_engine import PlainEngine
from tests.catalogue.shop import SHOP
from tollhouse.catalogue.search_engine import TantivyEngine


@pytest.fixture(params=["tantivy", "tantivy folder", "plain"])
def engine(request, tmp_path):
    """An empty engine of each kind."""
    if request.param == "plain":
        return PlainEngine(SHOP)
    tantivy = TantivyEngine(SHOP, tmp_path / "index" if request.param == "tantivy folder" else None)
    assert tantivy.index.take_writer()
    return tantivy
