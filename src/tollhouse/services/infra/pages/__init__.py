"""The page of the infra service, declared beside its files."""

from pathlib import Path

from tollhouse.http.pages import FrontPageEntry, Page

PAGES = (
    Page(
        path="/value-chain",
        title="AI infrastructure value chain",
        label="Value chain",
        file=Path(__file__).parent / "value_chain.html",
        scripts=("value_chain.js",),
        libraries=("d3",),
        parameters=("company", "from", "to", "without", "category"),
    ),
)
FRONT_PAGE = FrontPageEntry(
    title="AI infrastructure discovery",
    summary="Companies of the AI infrastructure value chain and who supplies whom, with evidence for each link.",
    example_calls=("/api/paths?from=asml&to=openai", "/api/chokepoints?limit=5", "/api/search?q=lithography"),
    page="/value-chain",
    button="Open the graph",
)
