"""Every block of code in the documentation is run by a test or checked by one, and so are commands within sentences."""

import contextlib
import importlib.util
import json
import re
import shlex
import subprocess
import tomllib
from pathlib import Path

import msgspec
import pytest
from cyclopts.exceptions import CycloptsError

from tests.guide.documents import PAGES, ROOT, blocks, commands, every_block, name_of, spans
from tests.guide.test_programs import PROGRAMS
from tests.guide.test_starts import STARTS
from tollhouse.catalogue.importers.mapping import load_mapping
from tollhouse.cli.main import app
from tollhouse.cli.new_service import new_service
from tollhouse.config.settings import Settings
from tollhouse.proxy.declaration import parse_proxy
from tollhouse.services.mattress.import_rows import ATTRIBUTES
from tollhouse.services.mattress.retailers import OPERATORS_FILE, load_retailers
from tollhouse.services.tables.declaration import parse_declaration

# A language that is not here has no test yet: write one. `text` is not run, but its commands must exist.
TRANSCRIPTS = {"text"}
SHELL = {"sh", "bash"}
CHECKED = {*TRANSCRIPTS, *SHELL, "json", "toml", "python", "js", "ts"}
# The front page of the project shows a terminal throughout.
UNMARKED = "README.md"
# Every program of these pages is run elsewhere: by tests/client/test_samples.py, test_library.py, test_starts.py, and
# tests/proxy/test_documented.py.
RUN_ELSEWHERE = {"docs/agents-client.md", "docs/library.md", "docs/proxy.md", *(f"docs/{page}.md" for page in STARTS)}
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
TARGETS = set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))
FILE = re.compile(r"(?:\S*python )?((?:benchmarks|tests|tools|contracts|requirements|src|docs)/[\w./-]+)(?:\s|$)")


def test_every_block_is_in_a_language_that_is_run_or_checked():
    unknown = [block for block in every_block() if block.language not in CHECKED]
    assert [f"{block} {block.language}" for block in unknown if (block.page, block.language) != (UNMARKED, "")] == []


@pytest.mark.parametrize("language", ["python", "js", "ts"])
def test_every_program_is_run_by_a_test(language):
    for page in PAGES:
        programs = [block for block in blocks(page) if block.language == language]
        run = PROGRAMS.get(name_of(page), ()) if language == "python" else ()
        assert len(programs) == len(run) or name_of(page) in RUN_ELSEWHERE, name_of(page)


def test_every_json_block_is_json():
    assert every_block("json")
    for block in every_block("json"):
        try:
            json.loads(block.text)
        except ValueError as error:
            pytest.fail(f"{block}: {error}")


def test_every_toml_block_is_read_by_what_it_is_for(tmp_path):
    assert every_block("toml")
    for block in every_block("toml"):
        parsed = tomllib.loads(block.text)
        if "retailer" in parsed:
            (tmp_path / OPERATORS_FILE).write_text(block.text)
            assert load_retailers(tmp_path).get(parsed["retailer"][0]["id"]).name == parsed["retailer"][0]["name"]
        elif "columns" in parsed:
            (tmp_path / "mapping.toml").write_text(block.text)
            assert load_mapping(tmp_path / "mapping.toml", ATTRIBUTES).columns == parsed["columns"]
        elif "project" in parsed:
            with contextlib.chdir(tmp_path):
                new_service("tides")
            written = tomllib.loads((tmp_path / "tollhouse-tides" / "pyproject.toml").read_text())
            assert written["project"]["entry-points"] == parsed["project"]["entry-points"]
        elif "upstream" in parsed:
            (tmp_path / "upstream.key").write_text("secret")
            assert parse_proxy(block.text, tmp_path / "weather.toml").head.title == parsed["title"]
        elif "table" in parsed:
            assert parse_declaration(block.text, tmp_path / "books.toml").title == parsed["title"]
        else:
            assert msgspec.convert(parsed, Settings, strict=False), block


def test_every_shell_block_is_the_shells_language():
    for block in every_block(*SHELL):
        read = subprocess.run(["bash", "-n"], input=block.text, capture_output=True, text=True, check=False)
        assert read.returncode == 0, f"{block}: {read.stderr}"


def shown_commands() -> list[tuple[str, str]]:
    """Where and what: command lines of shell blocks and transcripts, and those within sentences."""
    in_blocks = [(str(block), line) for block in every_block("", *SHELL, *TRANSCRIPTS) for line in commands(block.text)]
    return [*in_blocks, *((name_of(page), span) for page in PAGES for span in spans(page))]


def test_every_tollhouse_command_exists_with_its_options():
    seen = [(where, line) for where, line in shown_commands() if re.match(r"(\S*/)?tollhouse [a-z]", line)]
    assert len(seen) > 20
    assert [f"{where}: {line}: {fault}" for where, line in seen if (fault := command_fault(line))] == []


def test_every_tollhouse_command_of_a_shell_block_can_be_given_as_it_stands():
    for block in every_block(*SHELL):
        for line in commands(block.text):
            words = shlex.split(line, comments=True)
            if words and Path(words[0]).name == "tollhouse":
                app.parse_args(until_operator(words[1:]), exit_on_error=False, print_error=False)


def until_operator(words: list[str]) -> list[str]:
    """The command's own words: what follows a pipe, a redirection or `&` is another's."""
    ends = [at for at, word in enumerate(words) if re.fullmatch(r"[|&;]+|\d?>.*", word)]
    return words[: ends[0]] if ends else words


def command_fault(line: str) -> str:
    """Why this is no command of ours, or one without these options; placeholders may stand in it."""
    text = line.partition("#")[0]
    words = text.split()[1:]
    try:
        names, apps, rest = app.parse_commands(words)
    except CycloptsError as error:
        return str(error)
    if not names:
        return f"there is no command {words[0]}"
    if apps[-1].default_command is None:
        return f"{names[-1]} has no command {rest[0]}" if rest and re.fullmatch(r"[a-z-]+", rest[0]) else ""
    known = {name for argument in apps[-1].assemble_argument_collection() for name in argument.names}
    unknown = set(re.findall(r"(?<![\w-])--[a-z-]+", text)) - known
    return f"no option {', '.join(sorted(unknown))}" if unknown else ""


def test_every_make_target_exists():
    seen = [(where, match[1]) for where, line in shown_commands() if (match := re.match(r"make ([a-z-]+)\b", line))]
    assert len(seen) > 3
    assert [f"{where}: make {target}" for where, target in seen if target not in TARGETS] == []


def test_every_module_that_is_run_exists():
    seen = [(where, match[1]) for where, line in shown_commands()
            if (match := re.search(r"\bpython -m ([a-z][\w.]+)", line))]  # fmt: skip
    assert seen
    for where, module in seen:
        assert importlib.util.find_spec(module), f"{where}: {module}"


def test_every_file_of_the_project_that_is_named_exists():
    match = [(where, named[1].rstrip(".,;:")) for where, line in shown_commands() if (named := FILE.match(line))]
    assert len(match) > 10
    assert [f"{where}: {path}" for where, path in match if not (ROOT / path).exists()] == []
