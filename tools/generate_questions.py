"""Generate questions with right answers: `python -m tools.generate_questions SERVICE SOURCE > QUESTIONS.jsonl`.

SOURCE is the base URL of a server or a file of rows, as for `tools.question_gold`. Each line has `id`, `turns`, `gold`,
`right`, `language`, `kind` (the family of templates), `match` where the family has one, and `plain` (the turns before a
typo) where there is a typo. The output depends on the rows and `--seed` alone.
"""

import argparse
import json
import random
import sys
from itertools import islice
from typing import Any

from tools.question_generator import defense, infra, mattress
from tools.question_generator.generator import Question
from tools.question_gold import evaluate, load_names
from tools.question_gold.evaluation import Names

SERVICES = {"infra": infra, "defense": defense, "mattress": mattress}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("service", choices=sorted(SERVICES))
    parser.add_argument("source")
    parser.add_argument("--key", help="API key of the server")
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    names = load_names(options.service, options.source, options.key)
    generated = SERVICES[options.service].generate(names, random.Random(options.seed))  # noqa: S311
    for number, question in enumerate(islice(generated, options.count), start=1):
        line = _line(f"{options.service}-g{number:05}", question, names)
        sys.stdout.write(json.dumps(line, ensure_ascii=False) + "\n")
    return 0


def _line(identifier: str, question: Question, names: Names) -> dict[str, Any]:
    line: dict[str, Any] = {
        "id": identifier,
        "turns": question.turns,
        "gold": question.gold,
        "right": evaluate(question.gold, names),
        "language": question.language,
        "kind": question.family,
    }
    if question.match:
        line["match"] = question.match
    if question.plain != question.turns:
        line["plain"] = question.plain
    return line


if __name__ == "__main__":
    sys.exit(main())
