"""The same house as for alerts."""

from tests.services.defense.alerts.conftest import house, settings

__all__ = ["house", "settings"]
