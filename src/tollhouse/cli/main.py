"""The command line's door: which commands there are, and how a wrong setting or a failure is told in one line."""

import sys

from cyclopts import App

from tollhouse import __version__
from tollhouse.cli.backup import backup, restore
from tollhouse.cli.demo import demo
from tollhouse.cli.evaluate import evaluate
from tollhouse.cli.import_ import import_
from tollhouse.cli.ingest import ingest
from tollhouse.cli.keys import keys
from tollhouse.cli.ledger import ledger
from tollhouse.cli.new import new
from tollhouse.cli.serve import serve, worker
from tollhouse.cli.settings import settings
from tollhouse.cli.webhooks import webhooks
from tollhouse.config.settings import SettingError
from tollhouse.errors import Problem
from tollhouse.storage.counters_sqlite import FolderInUseError
from tollhouse.storage.migrate import NewerSchemaError

app = App(name="tollhouse", version=__version__, help="Publish data feeds and catalogues, meter them, get paid.")
app.command(serve)
app.command(worker)
app.command(new)
app.command(demo)
app.command(ingest)
app.command(import_, name="import")
app.command(keys)
app.command(ledger)
app.command(evaluate)
app.command(webhooks)
app.command(settings)
app.command(backup)
app.command(restore)


def main() -> None:
    """Run one command; exit 2 for a wrong setting, 1 for a failure."""
    try:
        app()
    except SettingError as error:
        sys.exit(_told(f"setting {error}", 2))
    except Problem as problem:
        sys.exit(_told(problem.detail, 1))
    except (FolderInUseError, NewerSchemaError, OSError, ValueError) as error:
        sys.exit(_told(str(error), 1))


def _told(message: str, code: int) -> int:
    print(f"tollhouse: {message}", file=sys.stderr)
    return code
