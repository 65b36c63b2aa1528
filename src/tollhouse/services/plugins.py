"""Services of other packages: entry points of the groups `tollhouse.services` and `tollhouse.settings`.

    [project.entry-points."tollhouse.services"]
    weather = "tollhouse_weather.service:open_weather"

    [project.entry-points."tollhouse.settings"]
    weather = "tollhouse_weather.settings:WeatherSettings"

The first names an async function that takes the AppContext and returns the Service. The second, which a service
may do without, names a Section. Both have the name of the service.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import is_dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from tollhouse.admission.context import AppContext
from tollhouse.config.declaration import service_fault
from tollhouse.config.section import Section, declarations
from tollhouse.errors import OperatorError
from tollhouse.http.service import Service

SERVICES_GROUP = "tollhouse.services"
SETTINGS_GROUP = "tollhouse.settings"

Open = Callable[[AppContext], Awaitable[Service]]


class PluginError(OperatorError):
    """A package that adds a service cannot be used. The message is one line that names it."""


def plugin_services(taken: Iterable[str]) -> dict[str, Open]:
    """The services of installed packages by name, none of them like one of the `taken`. Raises PluginError."""
    names = list(taken)
    return {point.name: _opener(point) for point in entry_points_of(SERVICES_GROUP) if _is_free(point, names)}


def plugin_sections(taken: Iterable[type[Section]]) -> tuple[type[Section], ...]:
    """The settings that installed packages declare, none of them like one of the `taken`. Raises PluginError."""
    seen = list(taken)
    sections: list[type[Section]] = []
    for point in entry_points_of(SETTINGS_GROUP):
        section = _load(point)
        is_section = isinstance(section, type) and issubclass(section, Section) and is_dataclass(section)
        if not is_section:
            raise PluginError(f"{_of(point)}: {point.value} is not a dataclass that inherits tollhouse.Section")
        try:
            declared = declarations([section])
        except Exception as error:
            raise PluginError(f"{_of(point)}: {point.value} declares no settings: {_line(error)}") from error
        for name in declared.keys() & declarations(seen).keys():
            raise PluginError(f"{_of(point)}: the setting {name} is taken")
        seen.append(section)
        sections.append(section)
    return tuple(sections)


def check_plugins(names: Iterable[str]) -> None:
    """Import what opens these services, where a package adds them. Raises PluginError."""
    chosen = set(names)
    for point in entry_points_of(SERVICES_GROUP):
        if point.name in chosen:
            _load(point)


@cache
def entry_points_of(group: str) -> tuple[EntryPoint, ...]:
    """The entry points of a group by name. Raises PluginError where two have one name."""
    # A package may be on the path twice, for instance beside its editable installation.
    points = {(_package(point), point.name): point for point in entry_points(group=group)}
    ordered = sorted(points.values(), key=lambda point: (point.name, _package(point)))
    for name, count in Counter(point.name for point in ordered).items():
        if count > 1:
            packages = " and ".join(_package(point) for point in ordered if point.name == name)
            raise PluginError(f"the packages {packages} both add {name}: uninstall one of them")
    return tuple(ordered)


def _is_free(point: EntryPoint, taken: Iterable[str]) -> bool:
    if fault := service_fault(point.name, taken):
        raise PluginError(f"{_of(point)}: {fault}")
    return True


def _opener(point: EntryPoint) -> Open:
    """Opens the service of a package, imported when it is called."""

    async def open_service(context: AppContext) -> Service:
        make = _load(point)
        try:
            service = await make(context)
        except Exception as error:
            raise PluginError(f"{_of(point)}: cannot be opened: {_line(error)}") from error
        if not isinstance(service, Service) or service.name != point.name:
            raise PluginError(f"{_of(point)}: {point.value} must return a tollhouse.Service of that name")
        return service

    return open_service


def _load(point: EntryPoint) -> Any:
    try:
        return point.load()
    except Exception as error:
        raise PluginError(f"{_of(point)}: {point.value} cannot be imported: {_line(error)}") from error


def _of(point: EntryPoint) -> str:
    version = f" {point.dist.version}" if point.dist else ""
    return f"package {_package(point)}{version}, service {point.name}"


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist else point.module


def _line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())
