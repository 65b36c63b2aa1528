"""The services this server offers: one line each, and those it offers only when asked for by name."""

from collections.abc import Awaitable, Callable

from tollhouse.gate.rooms import Rooms
from tollhouse.gate.service import Service
from tollhouse.services.defense.service import open_defense
from tollhouse.services.facilitator.service import open_facilitator
from tollhouse.services.infra.service import open_infra
from tollhouse.services.mattress.service import open_mattress
from tollhouse.services.studio.service import open_studio

Open = Callable[[Rooms], Awaitable[Service]]

SERVICES: dict[str, Open] = {
    "defense": open_defense,
    "mattress": open_mattress,
    "studio": open_studio,
    "infra": open_infra,
}

# It settles payments for other servers: whoever runs one asks for it.
EVERY_SERVICE: dict[str, Open] = {**SERVICES, "facilitator": open_facilitator}
