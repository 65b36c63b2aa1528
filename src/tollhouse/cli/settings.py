"""`tollhouse settings`: what is in force, secrets masked."""

import json

from tollhouse.cli.options import HERE, Where
from tollhouse.config.settings import shown


def settings(*, where: Where = HERE) -> None:
    """Print every setting in force as JSON, secrets masked."""
    print(json.dumps(shown(where.settings()), indent=2))
