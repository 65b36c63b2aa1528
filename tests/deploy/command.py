"""Where the deployment's files are, and what our command line makes of a command in them."""

from pathlib import Path
from typing import Any

from tollhouse.cli.main import app

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"


def understood(words: list[str]) -> tuple[str, dict[str, Any]]:
    """The command's name and its arguments, as if it were run. Fails for a command or an option that is not there."""
    command, bound, _ = app.parse_args(words, exit_on_error=False, print_error=False)
    return command.__name__, bound.arguments
