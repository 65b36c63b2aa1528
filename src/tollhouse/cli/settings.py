"""`tollhouse settings`: the settings in effect, and what each means."""

import json
from typing import Annotated

from cyclopts import Parameter

from tollhouse.cli.options import DEFAULTS, CommonOptions
from tollhouse.config.loader import masked
from tollhouse.config.section import declarations
from tollhouse.config.settings import SECTIONS as SERVER_SECTIONS
from tollhouse.services import sections


def settings(
    *,
    describe: Annotated[bool, Parameter(negative="", help="List every setting with its default and meaning")] = False,
    common: CommonOptions = DEFAULTS,
) -> None:
    """Print the settings in effect as JSON, with secrets masked."""
    if not describe:
        print(json.dumps(masked(common.settings()), indent=2))
        return
    section = ""
    for declared in declarations([*SERVER_SECTIONS, *sections()]).values():
        if declared.section != section:
            section = declared.section
            print(f"\n{section}")
        default = "" if declared.default in ("", None, {}, ()) else f" [default: {_text(declared.default)}]"
        print(f"  {declared.name:26} {declared.meaning}{default}")


def _text(default: object) -> str:
    if isinstance(default, dict | tuple):
        return f"{len(default)} entries"
    return str(default).lower() if isinstance(default, bool) else str(default)
