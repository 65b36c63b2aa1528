"""The page of the studio service, declared beside its files."""

from pathlib import Path

from tollhouse.http.pages import FrontPageEntry, Page

PAGES = (
    Page(
        path="/studio-catalogue",
        title="Studio catalogue",
        label="Studio",
        file=Path(__file__).parent / "catalogue.html",
        scripts=("catalogue.js",),
    ),
)
FRONT_PAGE = FrontPageEntry(
    title="Studio catalogue",
    summary="A studio's catalogue: operating layers, products with indicative prices, and the first engagement.",
    example_calls=("/api/catalogue",),
    page="/studio-catalogue",
    button="Read the catalogue",
)
