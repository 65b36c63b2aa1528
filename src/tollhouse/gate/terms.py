"""The terms of an operation: who may call it, what it draws on, what it costs."""

from typing import Literal

from msgspec import Struct

from tollhouse.caller import Tier


class Terms(Struct, frozen=True):
    """`opens_to` a key of at least `minimum_tier`, to the operator, or to anyone.

    `is_metered`: one call of the caller's plan is used.
    """

    opens_to: Literal["anyone", "key", "operator"]
    minimum_tier: Tier = "free"
    is_metered: bool = False


FREE = Terms("anyone")
KEY_UNMETERED = Terms("key")
KEY_METERED = Terms("key", is_metered=True)
OPERATOR = Terms("operator")
