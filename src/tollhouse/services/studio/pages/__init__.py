"""The page of the studio service and its piece of the front page, declared beside its files."""

from pathlib import Path

from tollhouse.http.pages import FrontPageEntry, Page

_FOLDER = Path(__file__).parent

PAGES = (
    Page(
        path="/studio-catalogue",
        title="Studio catalogue",
        label="Studio",
        file=_FOLDER / "catalogue.html",
        scripts=("catalogue.js", "studio.css"),
    ),
)
FRONT_PAGE = FrontPageEntry(
    title="Studio catalogue",
    summary="A studio's catalogue: operating layers, products with indicative prices, and the first engagement.",
    example_calls=("/api/catalogue",),
    page="/studio-catalogue",
    button="Read the catalogue",
    file=_FOLDER / "front.html",
    scripts=("front.js", "studio.css"),
)
