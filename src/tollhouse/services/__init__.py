"""The services of this server: the built-in ones, declared tables, and those served only by name."""

from collections.abc import Awaitable, Callable
from pathlib import Path

from tollhouse.admission.context import AppContext
from tollhouse.config.section import Section
from tollhouse.config.settings import Settings
from tollhouse.http.service import Service
from tollhouse.services.defense.service import open_defense
from tollhouse.services.defense.settings import DefenseSettings
from tollhouse.services.facilitator.service import open_facilitator
from tollhouse.services.infra.service import InfraSettings, open_infra
from tollhouse.services.mattress.service import open_mattress
from tollhouse.services.studio.service import StudioSettings, open_studio
from tollhouse.services.tables.service import declared_tables

# The settings that services declare.
SECTIONS: tuple[type[Section], ...] = (DefenseSettings, InfraSettings, StudioSettings)

Open = Callable[[AppContext], Awaitable[Service]]

SERVICES: dict[str, Open] = {
    "defense": open_defense,
    "mattress": open_mattress,
    "studio": open_studio,
    "infra": open_infra,
}

# It settles payments for other servers, so it is served only when named.
EVERY_SERVICE: dict[str, Open] = {**SERVICES, "facilitator": open_facilitator}


def offered(settings: Settings) -> dict[str, Open]:
    """The services of a server whose settings name none: its own, and every declared one. Raises DeclarationError."""
    return {**SERVICES, **declared_tables(Path(settings.services_dir), EVERY_SERVICE)}


def every_service(settings: Settings) -> dict[str, Open]:
    """The same, and those that are offered only when asked for by name. Raises DeclarationError."""
    return {**offered(settings), **EVERY_SERVICE}
