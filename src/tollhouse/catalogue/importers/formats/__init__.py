"""Import formats, one module each. Importing this package registers all of them."""

from importlib import import_module
from pkgutil import iter_modules

from tollhouse.catalogue.importers.registry import FORMATS, Format

__all__ = ["FORMATS", "find_format"]

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")


def find_format(name: str) -> Format:
    """The format of this name. Raises ValueError that lists the names."""
    if name not in FORMATS:
        raise ValueError(f"there is no format {name!r}; formats are {', '.join(FORMATS)}")
    return FORMATS[name]
