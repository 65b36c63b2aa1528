"""Tollhouse publishes data feeds and catalogues, meters every call, and gets paid for it.

What a program needs is here. Each name is imported when it is first used. docs/library.md describes them.
"""

from importlib import import_module

__version__ = "0.1.0"

_PLACES = {
    "tollhouse.admission.context": ("AppContext",),
    "tollhouse.app": ("create_app",),
    "tollhouse.config.section": ("Section", "SettingError", "setting"),
    "tollhouse.config.settings": ("Settings",),
    "tollhouse.errors": ("Problem",),
    "tollhouse.http.endpoint": ("Endpoint", "Example", "Request", "Response", "endpoint", "endpoints_of"),
    "tollhouse.http.service": ("AnsweringOperation", "Component", "Service"),
    "tollhouse.http.terms": ("FREE", "KEY_OR_AGENT", "Price", "Terms", "free_then_paid", "key_with"),
    "tollhouse.middleware.exchange": ("TollCall",),
    "tollhouse.middleware.middleware": ("TollMiddleware",),
    "tollhouse.middleware.toll": ("Toll", "toll"),
    "tollhouse.services": ("load_settings",),
}
_MODULES = {name: module for module, names in _PLACES.items() for name in names}

__all__ = sorted(_MODULES)  # noqa: PLE0605 - the list is in _PLACES


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
