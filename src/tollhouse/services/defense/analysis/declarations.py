"""The operations under `/api/analysis`, declared."""

from typing import Any

from tollhouse.http.endpoint import JSON, Endpoint, Example
from tollhouse.http.terms import key_with
from tollhouse.services.defense.analysis.endpoints import (
    CSV,
    FORMATS,
    AnalysisEndpoints,
    AnalysisResult,
    QueryDeleted,
    SavedQueries,
    SavedQuery,
)
from tollhouse.services.defense.analysis.request import AnalysisQuery, AnalysisRequest, RunQuery, SavedRequest

TERMS = key_with("analysis")
TAG = "analysis"

_ANSWERS: dict[str, Any] = {JSON: AnalysisResult, CSV: {"type": "string"}}
_ID = {
    "id": {
        "description": "Its id",
        "example": "query_3f2a9c0d1b4e5f607182",
        "schema": {"type": "string", "pattern": "^query_[0-9a-f]{20}$"},
    }
}
_EXAMPLE = {"group_by": ["country", "category"], "filters": {"severity_tier": "high"}, "hours": 24, "limit": 20}


def analysis_operations(desk: AnalysisEndpoints) -> list[Endpoint]:
    """Every operation of the analysis, in the order the description shows them."""
    return [
        Endpoint(
            id="analyse",
            method="POST",
            path="/api/analysis",
            summary="Count events by what they have in common",
            description="Groups by country, category, day or entity, one or two of them at once, with counts, deaths "
            "and significance, over the filters of the events feed.",
            handler=desk.analyse,
            terms=TERMS,
            query=AnalysisQuery,
            body=AnalysisRequest,
            responses=_ANSWERS,
            formats=FORMATS,
            problems=("upstream-unavailable",),
            tag=TAG,
            examples={"body": _EXAMPLE},
        ),
        Endpoint(
            id="saveAnalysisQuery",
            method="POST",
            path="/api/analysis/queries",
            summary="Save a query",
            handler=desk.save,
            terms=TERMS,
            body=SavedRequest,
            responses={JSON: SavedQuery},
            tag=TAG,
            examples={"body": {"name": "Where it is worst", "query": _EXAMPLE}},
        ),
        Endpoint(
            id="listAnalysisQueries",
            method="GET",
            path="/api/analysis/queries",
            summary="The key's saved queries",
            handler=desk.listed,
            terms=TERMS,
            responses={JSON: SavedQueries},
            tag=TAG,
        ),
        Endpoint(
            id="runAnalysisQuery",
            method="POST",
            path="/api/analysis/queries/{id}/run",
            summary="Run a saved query",
            handler=desk.run,
            terms=TERMS,
            query=RunQuery,
            path_parameters=_ID,
            responses=_ANSWERS,
            formats=FORMATS,
            problems=("upstream-unavailable",),
            tag=TAG,
            sample=Example(path={"id": "$QUERY_ID"}),
        ),
        Endpoint(
            id="deleteAnalysisQuery",
            method="DELETE",
            path="/api/analysis/queries/{id}",
            summary="Delete a saved query",
            handler=desk.delete,
            terms=TERMS,
            path_parameters=_ID,
            responses={JSON: QueryDeleted},
            tag=TAG,
            sample=Example(path={"id": "$QUERY_ID"}),
        ),
    ]
