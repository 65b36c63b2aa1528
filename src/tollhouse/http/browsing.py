"""What a page that browses a service of any kind of things needs to know of it."""

from msgspec import Struct


class Choice(Struct, frozen=True):
    """A member of an item, and what can be done with it: `is_counted` there is a facet of it."""

    name: str
    label: str
    type: str
    unit: str
    is_filtered: bool
    is_ranged: bool
    is_counted: bool
    is_ordered: bool
    is_shown: bool


class Browsing(Struct, frozen=True):
    """The things of a service: `title_field` names one of them, `has_files` tells whether all can be had at once."""

    title: str
    description: str
    title_field: str
    licence: str
    source: str
    has_files: bool
    fields: tuple[Choice, ...]
