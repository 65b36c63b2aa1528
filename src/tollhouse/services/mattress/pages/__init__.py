"""The page of the mattress service and its section of the front page, declared beside their files."""

from pathlib import Path

from tollhouse.http.pages import FrontPageEntry, Page
from tollhouse.services.mattress.api_types import KEYWORDS

_HERE = Path(__file__).parent
PAGES = (
    Page(
        path="/mattresses",
        title="Mattress search",
        label="Mattresses",
        file=_HERE / "search.html",
        scripts=("products.css", "search.css", "search.js"),
        parameters=(
            "q", "sort", "min_price", "max_price", "firmness_min", "firmness_max", "cooling_min", "cooling_max",
            "in_stock", "on_sale", "offset", "product", "chosen", "compare", "rows",
        ),
        list_parameters=(
            *KEYWORDS, *(f"{name}_not" for name in KEYWORDS), "sleep_position_all", "text", "text_not",
        ),
    ),
)  # fmt: skip
FRONT_PAGE = FrontPageEntry(
    title="Mattress search",
    summary="Compare mattresses of several Australian retailers, with the history of every price.",
    example_calls=("/api/search?q=firm+queen", "/api/products?limit=5"),
    page="/mattresses",
    button="Search mattresses",
    file=_HERE / "front.html",
    scripts=("products.css", "shop_front.css", "front.js"),
    parameters=("mattress",),
)
