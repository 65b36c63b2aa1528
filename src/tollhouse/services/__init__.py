"""The services of this server: the built-in ones, declared tables, and those served only by name.

A service's code is imported when the service is opened: most commands open none, nor does the main process of a server.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from importlib import import_module
from pathlib import Path

from tollhouse.admission.context import AppContext
from tollhouse.config.loader import load
from tollhouse.config.section import Section
from tollhouse.config.settings import Settings
from tollhouse.http.service import Service
from tollhouse.services.defense.settings import DefenseSettings
from tollhouse.services.infra.settings import InfraSettings
from tollhouse.services.studio.settings import StudioSettings

# The settings that services declare.
SECTIONS: tuple[type[Section], ...] = (DefenseSettings, InfraSettings, StudioSettings)

Open = Callable[[AppContext], Awaitable[Service]]


def _opener(name: str) -> Open:
    """The function `open_<name>` of `tollhouse.services.<name>.service`, imported when it is called."""

    async def open_service(context: AppContext) -> Service:
        module = import_module(f"tollhouse.services.{name}.service")
        service: Service = await getattr(module, f"open_{name}")(context)
        return service

    return open_service


def _declared_tables(folder: Path) -> dict[str, Open]:
    if not any(folder.glob("*.toml")):
        return {}
    from tollhouse.services.tables.declaration import Declaration, declared_tables

    async def open_declared(declaration: Declaration, context: AppContext) -> Service:
        from tollhouse.services.tables.service import open_table

        return await open_table(declaration, context)

    tables = declared_tables(folder, EVERY_SERVICE)
    return {name: partial(open_declared, declaration) for name, declaration in tables.items()}


NAMES = ("defense", "mattress", "studio", "infra")
SERVICES: dict[str, Open] = {name: _opener(name) for name in NAMES}

# It settles payments for other servers, so it is served only when named.
EVERY_SERVICE: dict[str, Open] = {**SERVICES, "facilitator": _opener("facilitator")}


def load_settings(config: str | None = None, **overrides: object) -> Settings:
    """The settings in effect, with the sections of every service. Raises SettingError."""
    return load(config, SECTIONS, **overrides)


def offered(settings: Settings) -> dict[str, Open]:
    """The services of a server whose settings name none: its own, and every declared one. Raises DeclarationError."""
    return {**SERVICES, **_declared_tables(Path(settings.services_dir))}


def every_service(settings: Settings) -> dict[str, Open]:
    """The same, and those that are offered only when asked for by name. Raises DeclarationError."""
    return {**offered(settings), **EVERY_SERVICE}
