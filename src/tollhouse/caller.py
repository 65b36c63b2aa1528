"""Callers: the holder of an API key, a registered wallet, a client address, or a visitor of the pages."""

from msgspec import Struct


class KeyCaller(Struct, frozen=True):
    """The holder of an API key. `per_day` and `per_minute` are the key's own limits, where the operator set some."""

    key_id: str
    tier: str
    label: str | None
    created_at: str
    per_day: int | None = None
    per_minute: int | None = None

    @property
    def subject(self) -> str:
        """The name under which this caller's usage is counted."""
        return self.key_id


class WalletCaller(Struct, frozen=True):
    """A registered wallet that signed the call. Its address is checksummed."""

    agent_id: str
    address: str

    @property
    def subject(self) -> str:
        """The name under which this caller's usage is counted."""
        return self.agent_id


class AddressCaller(Struct, frozen=True):
    """A client known only by its address (IPv6 folded to its /64)."""

    address: str

    @property
    def subject(self) -> str:
        """The name under which this caller's usage is counted."""
        return f"address:{self.address}"


class VisitorCaller(AddressCaller, frozen=True):
    """A person who reads the pages without a key, known only by the client's address."""


Caller = KeyCaller | WalletCaller | AddressCaller
