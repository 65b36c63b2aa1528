"""Work out the right answers of question files.

    python -m tools.question_gold right SERVICE SOURCE FILE.jsonl ... [--key KEY]
    python -m tools.question_gold rows SERVICE SOURCE [--key KEY] > ROWS.json

SOURCE is the base URL of a server that serves all services, or a file written by `rows`. `right` evaluates the `gold`
of each line and writes the value into its `right`; the exit status is 1 if an expression could not be evaluated.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from tools.question_gold import SERVICES, evaluate, load_names, load_rows
from tools.question_gold.evaluation import Names

ERRORS = (ArithmeticError, AttributeError, LookupError, NameError, SyntaxError, TypeError, ValueError)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("right", "rows"))
    parser.add_argument("service", choices=sorted(SERVICES))
    parser.add_argument("source")
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--key", help="API key of the server")
    options = parser.parse_args()
    if options.command == "rows":
        json.dump(load_rows(options.service, options.source, options.key), sys.stdout, ensure_ascii=False)
        return 0
    known = load_names(options.service, options.source, options.key)
    return int(sum(_write_right(file, known) for file in options.files) > 0)


def _write_right(file: Path, known: Names) -> int:
    """Write `right` into every line of a file; the number of lines whose expression failed."""
    failures = 0
    lines: list[dict[str, Any]] = []
    for text in file.read_text(encoding="utf-8").splitlines():
        line = json.loads(text)
        try:
            line["right"] = evaluate(line["gold"], known)
        except ERRORS as error:
            failures += 1
            print(f"{line['id']}: {error!r}", file=sys.stderr)
        lines.append(line)
    file.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")
    return failures


if __name__ == "__main__":
    sys.exit(main())
