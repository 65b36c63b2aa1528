"""The page of the mattress service, declared beside its files."""

from pathlib import Path

from tollhouse.http.pages import FrontPageEntry, Page

PAGES = (
    Page(
        path="/mattresses",
        title="Mattress search",
        label="Mattresses",
        file=Path(__file__).parent / "search.html",
        scripts=("search.js",),
        libraries=("d3",),
        parameters=(
            "q", "sort", "min_price", "max_price", "firmness_min", "firmness_max", "cooling_min", "in_stock", "offset",
            "product",
        ),
        list_parameters=("brand", "size", "material", "retailer", "sleep_position"),
    ),
)  # fmt: skip
FRONT_PAGE = FrontPageEntry(
    title="Mattress search",
    summary="Mattresses of several Australian retailers: search, compare, and follow an affiliate link to buy.",
    example_calls=("/api/search?q=firm+queen", "/api/products?limit=5"),
    page="/mattresses",
    button="Search mattresses",
)
