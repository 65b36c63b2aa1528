"""The page of the mattress service, declared beside its files."""

from pathlib import Path

from tollhouse.http.pages import FrontPageEntry, Page
from tollhouse.services.mattress.api_types import KEYWORDS

PAGES = (
    Page(
        path="/mattresses",
        title="Mattress search",
        label="Shop",
        file=Path(__file__).parent / "search.html",
        scripts=("search.js",),
        libraries=("d3",),
        parameters=(
            "q", "sort", "min_price", "max_price", "firmness_min", "firmness_max", "cooling_min", "cooling_max",
            "in_stock", "on_sale", "offset", "product",
        ),
        list_parameters=(
            *KEYWORDS, *(f"{name}_not" for name in KEYWORDS), "sleep_position_all", "text", "text_not",
        ),
    ),
)  # fmt: skip
FRONT_PAGE = FrontPageEntry(
    title="Mattress search",
    summary="Mattresses of several Australian retailers: search, compare, and follow an affiliate link to buy.",
    example_calls=("/api/search?q=firm+queen", "/api/products?limit=5"),
    page="/mattresses",
    button="Search mattresses",
)
