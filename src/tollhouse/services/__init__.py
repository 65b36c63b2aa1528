"""The services of this server: the built-in ones, those of installed packages, declared ones, and those served by name.

A service's code is imported when the service is opened: most commands open none, nor does the main process of a server.
"""

from importlib import import_module
from pathlib import Path

from tollhouse.admission.context import AppContext
from tollhouse.config.declaration import DeclarationText, declaration_files, read_text
from tollhouse.config.loader import load
from tollhouse.config.section import Section
from tollhouse.config.settings import SECTIONS as SERVER_SECTIONS
from tollhouse.config.settings import Settings
from tollhouse.http.service import Service
from tollhouse.services.defense.settings import DefenseSettings
from tollhouse.services.infra.settings import InfraSettings
from tollhouse.services.plugins import Open, check_plugins, plugin_sections, plugin_services
from tollhouse.services.studio.settings import StudioSettings

__all__ = [
    "EVERY_SERVICE",
    "SECTIONS",
    "SERVICES",
    "Open",
    "check_plugins",
    "every_service",
    "load_settings",
    "offered",
]

# The settings that the built-in services declare.
SECTIONS: tuple[type[Section], ...] = (DefenseSettings, InfraSettings, StudioSettings)


def _opener(name: str) -> Open:
    """The function `open_<name>` of `tollhouse.services.<name>.service`, imported when it is called."""

    async def open_service(context: AppContext) -> Service:
        module = import_module(f"tollhouse.services.{name}.service")
        service: Service = await getattr(module, f"open_{name}")(context)
        return service

    return open_service


def _declared(folder: Path) -> dict[str, Open]:
    """The services that the TOML files of a folder declare: those with an `[upstream]` are proxies, others tables."""
    taken = {**EVERY_SERVICE, **plugin_services(EVERY_SERVICE)}
    return {path.stem: _declared_opener(path) for path in declaration_files(folder, taken)}


def _declared_opener(path: Path) -> Open:
    text = read_text(path)
    return _proxy_opener(text, path) if "upstream" in DeclarationText(path, text).members() else _table_opener(path)


def _proxy_opener(text: str, path: Path) -> Open:
    from tollhouse.proxy.declaration import parse_proxy

    declaration = parse_proxy(text, path)

    async def open_declared(context: AppContext) -> Service:
        from tollhouse.proxy.service import open_proxy

        return await open_proxy(declaration, context)

    return open_declared


def _table_opener(path: Path) -> Open:
    from tollhouse.services.tables.declaration import read_declaration

    declaration = read_declaration(path)

    async def open_declared(context: AppContext) -> Service:
        from tollhouse.services.tables.service import open_table

        return await open_table(declaration, context)

    return open_declared


NAMES = ("defense", "mattress", "studio", "infra")
SERVICES: dict[str, Open] = {name: _opener(name) for name in NAMES}

# It settles payments for other servers, so it is served only when named.
EVERY_SERVICE: dict[str, Open] = {**SERVICES, "facilitator": _opener("facilitator")}


def load_settings(config: str | None = None, **overrides: object) -> Settings:
    """The settings in effect, with the sections of every service. Raises SettingError, PluginError."""
    return load(config, sections(), **overrides)


def sections() -> tuple[type[Section], ...]:
    """The settings that services declare, also those of installed packages. Raises PluginError."""
    return (*SECTIONS, *plugin_sections([*SERVER_SECTIONS, *SECTIONS]))


def offered(settings: Settings) -> dict[str, Open]:
    """The services of a server whose settings name none: its own, those of installed packages, and declared ones.

    Raises DeclarationError, PluginError.
    """
    return {**SERVICES, **plugin_services(EVERY_SERVICE), **_declared(Path(settings.services_dir))}


def every_service(settings: Settings) -> dict[str, Open]:
    """The same, and those that are offered only when asked for by name. Raises DeclarationError."""
    return {**offered(settings), **EVERY_SERVICE}
