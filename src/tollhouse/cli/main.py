"""The `tollhouse` command: its subcommands, and errors in one line."""

import sys

from cyclopts import App

from tollhouse import __version__, memory
from tollhouse.config.settings import SettingError
from tollhouse.errors import OperatorError, Problem

app = App(name="tollhouse", version=__version__, help="Publish data feeds and catalogues, meter them, get paid.")
# Each command is imported when it is run: `tollhouse --version` needs no service.
_COMMANDS = (
    ("serve", "serve", "Run the server. In-flight requests complete before shutdown."),
    ("worker", "serve", "Run the background work without a server."),
    ("proxy", "proxy", "Declare and serve a toll in front of an HTTP API."),
    ("new", "new", "Generate a service definition from a table."),
    ("new-service", "new_service", "Write a Python package that adds a service."),
    ("pay", "pay", "Make one request and pay for it."),
    ("demo", "demo", "Run a local chain and a server, and show every way to pay."),
    ("ingest", "ingest", "Ingest provider files into the defense feeds."),
    ("import", "import_", "Import a product feed into a service's catalogue."),
    ("keys", "keys", "Create, list, revoke and change API keys."),
    ("ledger", "ledger", "Verify the ledger and list its entries."),
    ("evaluate", "evaluate", "Measure the serving code against labelled files."),
    ("webhooks", "webhooks", "Manage webhook endpoints and deliveries."),
    ("operator", "operator", "Print a link that logs the operator in once."),
    ("settings", "settings", "Print the effective settings, with secrets masked."),
    ("backup", "backup", "Back up all SQLite data while the server runs."),
    ("restore", "backup", "Restore a backup into an empty data directory."),
)
for _name, _module, _summary in _COMMANDS:
    # In the list of commands a summary; in a command's own help the whole of its docstring.
    _help = {} if _name in sys.argv[1:2] else {"help": _summary}
    _function = "import_" if _name == "import" else _name.replace("-", "_")
    app.command(f"tollhouse.cli.{_module}:{_function}", name=_name, **_help)


def main() -> None:
    """Run one command. Exit with 2 for an invalid setting, 1 for a failure."""
    memory.collect_rarely()
    try:
        app()
    except SettingError as error:
        sys.exit(_print_error(f"setting {error}", 2))
    except Problem as problem:
        sys.exit(_print_error(problem.detail, 1))
    except (OperatorError, OSError, ValueError) as error:
        sys.exit(_print_error(str(error), 1))


def _print_error(message: str, code: int) -> int:
    print(f"tollhouse: {message}", file=sys.stderr)
    return code
