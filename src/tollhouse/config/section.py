"""How settings are declared: a section is a frozen dataclass with one `setting(default, meaning)` line each.

A service declares its own section in its package; the server's sections are in `config/settings.py`.

    @dataclass(frozen=True, kw_only=True)
    class WeatherSettings(Section):
        \"\"\"Weather.\"\"\"

        weather_url: HttpUrl = setting("https://example.org/", "URL of the forecast")
"""

from collections.abc import Mapping, Sequence
from dataclasses import field, fields
from typing import Annotated, Any, Literal, get_args, get_type_hints

from msgspec import Meta, Struct


class SettingError(Exception):
    """A setting is unknown or invalid. The message is one line that names it."""


class Section:
    """A group of settings; the first line of its docstring is its title."""


PositiveInt = Annotated[int, Meta(gt=0, description="a whole number greater than zero")]
PositiveFloat = Annotated[float, Meta(gt=0, description="a number greater than zero")]
Count = Annotated[int, Meta(ge=0, description="a whole number, zero or more")]
Name = Annotated[str, Meta(min_length=1, description="a name")]
HttpUrl = Annotated[str, Meta(pattern="^(https?://.*)?$", description="an http:// or https:// URL")]
Address = Annotated[str, Meta(pattern="^(0x[0-9a-fA-F]{40})?$", description="an address, 0x and 40 hexadecimal digits")]

Secrecy = Literal["public", "secret", "has_password"]


class Declaration(Struct, frozen=True):
    """One setting as declared: its section's title, name, type, default, meaning, and what of it is secret."""

    section: str
    name: str
    type: Any
    default: Any
    meaning: str
    secrecy: Secrecy


def setting(default: Any, meaning: str, secrecy: Secrecy = "public") -> Any:
    """A setting's default and meaning. A `secret` is never shown; a URL that `has_password` is shown without it."""
    metadata = {"meaning": meaning, "secrecy": secrecy}
    if isinstance(default, dict):
        return field(default_factory=lambda: dict(default), metadata=metadata)
    return field(default=default, metadata=metadata)


def declarations(sections: Sequence[type[Section]]) -> dict[str, Declaration]:
    """Every setting of these sections by name, in order of declaration."""
    declared = {}
    for section in sections:
        types, defaults = get_type_hints(section, include_extras=True), section()
        for one in fields(section):  # type: ignore[arg-type]  # each section is a dataclass
            declared[one.name] = Declaration(
                section=(section.__doc__ or "").partition(".")[0],
                name=one.name,
                type=types[one.name],
                default=getattr(defaults, one.name),
                meaning=one.metadata["meaning"],
                secrecy=one.metadata["secrecy"],
            )
    return declared


def requirement(annotation: Any) -> str:
    """What a value of this type must be, e.g. "a number greater than zero"; empty where the type says nothing."""
    for part in get_args(annotation):
        if isinstance(part, Meta) and part.description:
            return part.description
        if nested := requirement(part):
            return f"a list; each must be {nested}"
    return ""


def known(values: Mapping[str, Any], section: type[Section]) -> dict[str, Any]:
    names = {one.name for one in fields(section)}  # type: ignore[arg-type]  # each section is a dataclass
    return {name: value for name, value in values.items() if name in names}
