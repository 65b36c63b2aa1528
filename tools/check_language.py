"""Check that names and prose use standard terms: `python tools/check_language.py [PATH ...]`.

Prints one line for each word of `NAMES` in an identifier and each phrase of `PROSE` in a docstring, comment, message or
document, with the term to use instead. Exits with 1 if there is any.
"""

import io
import re
import sys
import tokenize
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).parents[1]
CHECKED = ("src/tollhouse", "docs", "README.md", "CHANGELOG.md")
SKIPPED = ("*/vendor/*", "docs/decisions/*", "*/migrations/*", "*/data/*", "*.lock")

# A part of an identifier, or the whole of one where it stands between ^ and $, and what to write instead.
NAMES = {
    "told": "the noun: replies, memo, payload, rows, message, published",
    "tell": "render, publish, describe",
    "tells": "renders, publishes, describes",
    "telling": "renderer, notification",
    "asked": "request",
    "asking": "query, prompt",
    "desk": "endpoints",
    "room": "context, logger",
    "rooms": "context, dependencies",
    "shelf": "index_directory, document_source, cluster_set",
    "errand": "transaction_request",
    "foresight": "preflight, simulation",
    "newsroom": "story_builder",
    "newsdesk": "publisher",
    "voices": "independent_sources, source_families",
    "heard": "received, source_count",
    "meant": "matched",
    "fate": "outcome",
    "ride": "pending_payment",
    "rides": "pending_payments",
    "^found$": "result, match, row",
    "^wanted$": "requested",
    "^left$": "remaining",
    "^sound$": "ok, verified",
    "^kept$": "stored",
    "^look$": "peek, poll, sync",
    "^looks$": "polls",
    "^gate$": "server, admission",
    "^house$": "application, server",
}
PROSE = {
    r"told": "state the fact: returned, reported, published",
    r"whoever": "the caller, the operator, anyone who",
    r"lest": "so that … not",
    r"for ever": "indefinitely, permanently",
    r"nobody": "no one, or name who",
    r"the house": "the server, the project",
    r"desks?": "endpoints",
    r"errands?": "transaction request",
    r"newsroom|newsdesk": "story builder, story publisher",
    r"foresight": "simulation",
    r"will not do": "is invalid",
    r"what there is to": "the noun",
    r"room=": "logger=",
}
# (path pattern, word, why it may stand there)
EXCEPTIONS: tuple[tuple[str, str, str], ...] = (
    ("src/tollhouse/services/defense/stories/cluster.py", "told", "an English stopword"),
    ("src/tollhouse/services/defense/news/store.py", "newsroom", "the name of a table that databases have"),
    ("src/tollhouse/services/defense/article.py", "newsroom", "the newsroom of a newspaper owner"),
)

_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_PROSE = {re.compile(rf"\b(?:{pattern})\b", re.IGNORECASE): term for pattern, term in PROSE.items()}
_WORDS = {word: term for word, term in NAMES.items() if not word.startswith("^")}
_WHOLE = {word.strip("^$"): term for word, term in NAMES.items() if word.startswith("^")}
_TEXT = {".md", ".html", ".js", ".css", ".toml"}


def findings(path: Path) -> Iterator[tuple[int, str, str]]:
    """Line, word and the standard term for each word that must not stand in this file."""
    text = path.read_text("utf-8")
    if path.suffix == ".py":
        yield from _in_python(text)
    else:
        yield from _in_prose(text, 1)


def _in_python(text: str) -> Iterator[tuple[int, str, str]]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NAME:
            name = token.string.strip("_")
            if name in _WHOLE:
                yield token.start[0], name, _WHOLE[name]
            for part in _PART.findall(token.string):
                if part.lower() in _WORDS:
                    yield token.start[0], token.string, _WORDS[part.lower()]
        elif token.type in {tokenize.COMMENT, tokenize.STRING}:
            yield from _in_prose(token.string, token.start[0])


def _in_prose(text: str, first_line: int) -> Iterator[tuple[int, str, str]]:
    for number, line in enumerate(text.splitlines(), first_line):
        for pattern, term in _PROSE.items():
            for match in pattern.finditer(line):
                yield number, match[0], term


def _files(paths: list[str]) -> Iterator[Path]:
    for start in (ROOT / path for path in paths):
        for path in [start] if start.is_file() else sorted(start.rglob("*")):
            name = path.relative_to(ROOT).as_posix()
            if path.suffix in _TEXT | {".py"} and not any(fnmatch(name, pattern) for pattern in SKIPPED):
                yield path


def main() -> int:
    """Print what was found; 1 if anything was."""
    count = 0
    for path in _files(sys.argv[1:] or list(CHECKED)):
        name = path.relative_to(ROOT).as_posix()
        for line, word, term in findings(path):
            if not any(fnmatch(name, pattern) and word.lower() == allowed for pattern, allowed, _ in EXCEPTIONS):
                print(f"{name}:{line}: {word!r}: write {term}")
                count += 1
    print(f"{count} words to replace" if count else "names and prose use standard terms")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
