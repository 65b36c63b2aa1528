"""The same small API in several frameworks: tolled and free routes, and one that breaks."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from django.conf import settings as django_settings
from django.core.asgi import get_asgi_application
from django.http import JsonResponse
from django.urls import clear_url_caches, path
from django.utils.functional import empty
from fastapi import APIRouter, FastAPI
from fastapi import Request as FastApiRequest
from litestar import Litestar, get
from litestar import Request as LitestarRequest
from litestar.params import FromPath
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Mount, Route

from tollhouse import TollMiddleware, toll

FORECAST = toll("0.002", free_per_day=2)
SECONDS_UNTIL_STREAMED = 0.4


def known(scope: Any, city: str) -> dict[str, Any]:
    """What the toll says of a call."""
    call = scope["tollhouse"]
    return {"city": city, "payment": call.payment, "caller": type(call.caller).__name__}


@FORECAST
async def forecast(request: Request) -> JSONResponse:
    """Get the forecast of a city."""
    seen = {name: request.headers.get(name) for name in ("authorization", "cookie", "x-payment", "host")}
    assert request.state.tollhouse is request.scope["tollhouse"]
    return JSONResponse({**known(request.scope, request.path_params["city"]), **seen})


@toll("0.002", free_per_day=100)
async def upload(request: Request) -> JSONResponse:
    return JSONResponse({"size": sum([len(piece) async for piece in request.stream()])})


@toll("0.002", free_per_day=3)
async def broken(request: Request) -> StreamingResponse:
    if "fine" in request.query_params:
        return StreamingResponse(iter([b"whole"]))
    if request.query_params["at"] == "once":
        raise ZeroDivisionError("before the answer")

    async def pieces() -> AsyncIterator[bytes]:
        yield b"one"
        if request.query_params["at"] == "late":
            await asyncio.sleep(SECONDS_UNTIL_STREAMED)
        raise ZeroDivisionError("in the middle")

    return StreamingResponse(pieces())


@toll("0.002", free_per_day=3)
async def events(request: Request) -> StreamingResponse:
    async def pieces() -> AsyncIterator[bytes]:
        for number in range(3):
            yield f"data: {number}\n\n".encode()

    return StreamingResponse(pieces(), media_type="text/event-stream", headers={"x-own": "1"})


async def latest(request: Request) -> JSONResponse:
    return JSONResponse({"free": True, "authorization": request.headers.get("authorization")})


@toll("0.05", requires_key=True)
async def deep(request: Request) -> JSONResponse:
    return JSONResponse(known(request.scope, "deep"))


@toll("0.002")
async def paid(request: Request) -> JSONResponse:
    return JSONResponse(known(request.scope, "paid"))


def of_starlette(settings: Any) -> Any:
    """The whole API, with the middleware inside that for CORS."""
    routes = [
        Route("/forecast/latest", latest),
        Route("/forecast/{city}", forecast),
        Route("/upload", upload, methods=["POST", "PUT"]),
        Route("/broken", broken),
        Route("/events", events),
        Route("/paid", paid, methods=["GET", "POST"]),
        Mount("/nested", routes=[Route("/deep/{number:int}", deep)]),
    ]
    cors = Middleware(CORSMiddleware, allow_origins=["https://page.test"], allow_credentials=True)
    return Starlette(routes=routes, middleware=[cors, Middleware(TollMiddleware, settings=settings)])


def of_fastapi(settings: Any) -> Any:
    app, router, inner = FastAPI(title="Weather"), APIRouter(), APIRouter()

    @inner.get("/latest")
    async def newest() -> dict[str, Any]:
        return {"free": True}

    @inner.get("/{city}")
    @FORECAST
    async def forecast_of(city: str, request: FastApiRequest) -> dict[str, Any]:
        """Get the forecast of a city."""
        return known(request.scope, city)

    router.include_router(inner, prefix="/forecast")
    app.include_router(router)
    app.add_middleware(TollMiddleware, settings=settings)
    return app


def of_litestar(settings: Any) -> Any:
    @get("/forecast/latest")
    async def newest() -> dict[str, Any]:
        return {"free": True}

    @get("/forecast/{city:str}")
    @FORECAST
    async def forecast_of(city: FromPath[str], request: LitestarRequest) -> dict[str, Any]:
        return known(request.scope, city)

    return TollMiddleware(Litestar([newest, forecast_of]), settings=settings, openapi="/schema/openapi.json")


async def django_latest(request: Any) -> JsonResponse:
    return JsonResponse({"free": True})


async def django_forecast(request: Any, city: str) -> JsonResponse:
    return JsonResponse(known(request.scope, city))


urlpatterns = [path("forecast/latest", django_latest), path("forecast/<str:city>", django_forecast)]


def forget_django() -> None:
    """Let Django be configured again."""
    django_settings._wrapped = empty
    clear_url_caches()


def of_django(settings: Any) -> Any:
    forget_django()
    django_settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], USE_TZ=True)
    routes = {"GET /forecast/latest": None, "GET /forecast/{city}": FORECAST}
    return TollMiddleware(get_asgi_application(), routes=routes, settings=settings)


APPS = {"Starlette": of_starlette, "FastAPI": of_fastapi, "Litestar": of_litestar, "Django": of_django}
