"""The operations of a table, declared."""

from collections.abc import Sequence
from typing import Any

from tollhouse.catalogue.exports import CSV, NDJSON
from tollhouse.http.endpoint import JSON, Endpoint, Example, Handler
from tollhouse.http.terms import Terms
from tollhouse.services.tables.declaration import Declaration
from tollhouse.services.tables.endpoints import TableEndpoints
from tollhouse.services.tables.queries import Asking, SimilarQuery, SuggestQuery
from tollhouse.services.tables.responses import Answers, Suggestions

# Named where the table has nothing that could be.
_NO_ITEM = "no-item-yet"


def operations(
    declaration: Declaration, desk: TableEndpoints, asking: Asking, metered: Terms, example: dict[str, Any]
) -> Sequence[Endpoint]:
    """Every operation, in the order the description shows them; `example` is an item there is, {} without any."""
    answers = Answers(declaration)
    words = _words(declaration, example)
    listed = [*_lists(desk, asking, answers, metered, words), *_singles(desk, answers, metered, example, words)]
    return [*listed, *(_exports(desk, asking, answers, metered) if declaration.exports else ())]


def _lists(desk: TableEndpoints, asking: Asking, answers: Answers, metered: Terms, words: str) -> list[Endpoint]:
    counted = {"facets": asking.facets[0]} if asking.facets else {}
    return [
        Endpoint(
            id="listItems",
            method="GET",
            path="/api/items",
            summary="Items that pass every filter",
            description="Text filters compare whole values in any case; given several times, any of them will do. "
            "Facets are counted as if their own filter were not set.",
            handler=desk.items,
            terms=metered,
            query=asking.items,
            responses={JSON: answers.page},
            tag="items",
            is_tool=True,
            sample=Example(query={"limit": 5, **counted}),
        ),
        Endpoint(
            id="searchItems",
            method="GET",
            path="/api/search",
            summary="Items for words",
            description="Words are found with a wrong letter if need be; every filter of the list works here too.",
            handler=desk.search,
            terms=metered,
            query=asking.search,
            responses={JSON: answers.found},
            tag="items",
            is_tool=True,
            sample=Example(query={"q": words, "limit": 5}),
        ),
    ]


def _singles(
    desk: TableEndpoints, answers: Answers, metered: Terms, example: dict[str, Any], words: str
) -> list[Endpoint]:
    identity = {
        "id": {
            "description": "The item's id",
            "example": example.get("id", _NO_ITEM),
            "schema": {"type": "string", "maxLength": 200},
        }
    }
    return [
        Endpoint(
            id="getItem",
            method="GET",
            path="/api/items/{id}",
            summary="One item",
            handler=desk.one,
            terms=metered,
            path_parameters=identity,
            responses={JSON: answers.single},
            tag="items",
            is_tool=True,
        ),
        Endpoint(
            id="listSimilarItems",
            method="GET",
            path="/api/items/{id}/similar",
            summary="Items like one: in its title and in the values that are counted",
            handler=desk.similar,
            terms=metered,
            query=SimilarQuery,
            path_parameters=identity,
            responses={JSON: answers.similar},
            tag="items",
            is_tool=True,
            sample=Example(query={"limit": 3}),
        ),
        Endpoint(
            id="suggest",
            method="GET",
            path="/api/suggest",
            summary="What typed words may become",
            handler=desk.suggest,
            terms=metered,
            query=SuggestQuery,
            responses={JSON: Suggestions},
            tag="items",
            is_tool=True,
            sample=Example(query={"q": words[:3]}),
        ),
    ]


def _exports(desk: TableEndpoints, asking: Asking, answers: Answers, metered: Terms) -> list[Endpoint]:
    text = {"type": "string"}
    files: list[tuple[str, str, str, dict[str, Any], Handler]] = [
        ("exportCsv", "csv", "as CSV, a row each", {CSV: text}, desk.as_csv),
        ("exportNdjson", "ndjson", "as JSON, a line each", {NDJSON: text}, desk.as_ndjson),
        ("exportJson", "json", "as one JSON document", {JSON: answers.whole}, desk.as_json),
    ]
    return [
        Endpoint(
            id=identity,
            method="GET",
            path=f"/api/items.{ending}",
            summary=f"Every item {told}",
            description="With filters or words, every item that they leave.",
            handler=handler,
            terms=metered,
            query=asking.exports[ending],
            responses=offered,
            tag="exports",
        )
        for identity, ending, told, offered, handler in files
    ]


def _words(declaration: Declaration, example: dict[str, Any]) -> str:
    """Words that find something."""
    title = declaration.table.title
    searched = [name for name, field in declaration.fields.items() if field.searched and field.exported]
    for name in [title, *searched]:
        value = example.get(name)
        text = value[0] if isinstance(value, list) and value else value
        if name in searched and isinstance(text, str) and text.strip():
            return " ".join(text.split()[:2])[:60]
    return "word"
