"""An application of FastAPI as its tutorial has them. It knows nothing of the server in front of it."""

from datetime import date
from enum import StrEnum
from typing import Annotated

from fastapi import FastAPI, Header, HTTPException, Path, Query, Response, UploadFile
from pydantic import BaseModel, Field

app = FastAPI(title="Weather of the coast", version="2.3.0")
ORDERS: list["Report"] = []
BEHAVIOUR = {"runs": 0, "status": 200}


class Unit(StrEnum):
    """Of temperatures."""

    celsius = "celsius"
    kelvin = "kelvin"


class Problem(BaseModel):
    """A model with a name that others use too."""

    kind: str
    at: date | None = None


class Forecast(BaseModel):
    """The weather of a day."""

    city: str
    unit: Unit
    degrees: list[float]
    warnings: list[Problem] = []


class Report(BaseModel):
    """What somebody saw."""

    text: Annotated[str, Field(min_length=1, examples=["Fog"])]
    seen: Problem | None = None


@app.get("/forecast/{city}", tags=["weather"])
def forecast(
    city: Annotated[str, Path(examples=["Kiel"])],
    days: Annotated[int, Query(ge=1, le=14)] = 3,
    unit: Unit = Unit.celsius,
    x_station: Annotated[str, Header()] = "",
) -> Forecast:
    """Forecast the weather of a city."""
    if city == "Atlantis":
        raise HTTPException(404, "no such city")
    return Forecast(city=city, unit=unit, degrees=[1.5] * days, warnings=[Problem(kind=x_station)] if x_station else [])


@app.post("/reports", status_code=201, tags=["reports"])
def add_report(report: Report) -> Report:
    """Add a report."""
    ORDERS.append(report)
    return report


@app.post("/images", tags=["reports"])
def add_image(image: UploadFile) -> dict[str, int]:
    return {"size": image.size or 0}


@app.get("/internal", include_in_schema=False)
def internal() -> str:
    return "not for callers"


@app.api_route("/page", include_in_schema=False)
@app.post("/ask", include_in_schema=False)
async def page(response: Response) -> dict[str, int]:
    BEHAVIOUR["runs"] += 1
    response.status_code = BEHAVIOUR["status"]
    return {"run": BEHAVIOUR["runs"]}


@app.get("/behaviour", include_in_schema=False)
async def read_behaviour() -> dict[str, int]:
    return BEHAVIOUR


@app.put("/behaviour", include_in_schema=False)
async def change_behaviour(changes: dict[str, int]) -> dict[str, int]:
    BEHAVIOUR.update(changes)
    return BEHAVIOUR
