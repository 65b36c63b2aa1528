"""`tollhouse new-service`: write a package that adds a service in Python."""

from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Annotated

from cyclopts import Parameter

from tollhouse.config.declaration import service_fault
from tollhouse.services import EVERY_SERVICE

# Each template, and where its text goes: `$module` is the name of the service in Python.
_FILES = {
    "pyproject.toml": "pyproject.toml",
    "README.md": "README.md",
    "init.py": "src/tollhouse_$module/__init__.py",
    "settings.py": "src/tollhouse_$module/settings.py",
    "service.py": "src/tollhouse_$module/service.py",
    "test_service.py": "tests/test_service.py",
}


def new_service(
    service: Annotated[str, Parameter(help="Name of the service, and its prefix")],
    *,
    folder: Annotated[Path | None, Parameter(help="New directory of the package (default: tollhouse-NAME)")] = None,
) -> None:
    """Write a Python package that adds a service: an endpoint with a price, its settings and a test."""
    if fault := service_fault(service, EVERY_SERVICE):
        raise ValueError(fault)
    target = folder or Path(f"tollhouse-{service}")
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise ValueError(f"{target} already exists")
    words = service.split("-")
    module = "_".join(words)
    names = {
        "name": service,
        "module": module,
        "type": "".join(map(str.capitalize, words)),
        "title": " ".join(words).capitalize(),
        "variable": f"TOLLHOUSE_{module.upper()}_NOTE",
    }
    templates = files("tollhouse.cli").joinpath("templates", "service")
    for template, place in _FILES.items():
        text = Template(templates.joinpath(f"{template}.txt").read_text("utf-8")).substitute(names)
        path = target / Template(place).substitute(names)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    print(f"Written to {target}. Next: pip install --editable '{target}[test]', then tollhouse serve {service}")
