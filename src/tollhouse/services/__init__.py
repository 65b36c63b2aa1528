"""The services this server offers: one line each."""

from collections.abc import Awaitable, Callable

from tollhouse.gate.rooms import Rooms
from tollhouse.gate.service import Service
from tollhouse.services.defense.service import open_defense
from tollhouse.services.infra.service import open_infra
from tollhouse.services.studio.service import open_studio

Open = Callable[[Rooms], Awaitable[Service]]

SERVICES: dict[str, Open] = {
    "defense": open_defense,
    "infra": open_infra,
    "studio": open_studio,
}
