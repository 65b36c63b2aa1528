"""The studio's document: its types, a YAML parser that reports errors with their line, and the served version."""

import asyncio
import contextlib
import os
import secrets
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import yaml
from msgspec import Meta, Struct, field

from tollhouse import clock
from tollhouse.config.settings import SettingError
from tollhouse.http.endpoint import Response
from tollhouse.http.response import compute_etag
from tollhouse.logs import logger
from tollhouse.periodic import file_stamp

log = logger("studio")

POLL_SECONDS = 1.0
LAST_GOOD = "studio-last-good.yaml"
MAX_BYTES = 1_048_576
MAX_DEPTH = 20

Id = Annotated[
    str, Meta(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$", description="Stable; lower-case letters, digits, hyphens")
]
Text = Annotated[str, Meta(min_length=1, max_length=4000)]
Amount = Annotated[int, Meta(ge=0, description="Whole units of the document's currency")]


class DocumentError(Exception):
    """The file is not a valid document. `line` counts from 1; 0 if unknown."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line}: {reason}" if line else reason)
        self.line = line
        self.reason = reason


class Layer(Struct, frozen=True, forbid_unknown_fields=True):
    """An operating layer of the studio, with the ids of its products."""

    id: Id
    name: Text
    summary: Text
    products: tuple[Id, ...]


class IndicativePrice(Struct, frozen=True, forbid_unknown_fields=True):
    """A price range, not a quote. `to` is null if the range has no upper end."""

    lowest: Amount = field(name="from")
    highest: Amount | None = field(name="to")
    unit: Text


class Product(Struct, frozen=True, forbid_unknown_fields=True):
    """A product of the studio, in one layer."""

    id: Id
    name: Text
    layer: Id
    summary: Text
    deliverables: Annotated[tuple[Text, ...], Meta(min_length=1)]
    indicative_price: IndicativePrice
    duration: Text


class FirstEngagement(Struct, frozen=True, forbid_unknown_fields=True):
    """The steps to the first engagement."""

    stage: Literal["Block 0"]
    steps: Annotated[tuple[Text, ...], Meta(min_length=1)]
    outputs: Annotated[tuple[Text, ...], Meta(min_length=1)]
    next: Text


class StudioCatalogue(Struct, frozen=True, forbid_unknown_fields=True):
    """Operating layers, products with indicative prices, and the path to Block 0. Prices are not a quote."""

    studio: Text
    version: Text
    currency: Annotated[str, Meta(pattern=r"^[A-Z]{3}$", description="ISO 4217")]
    pricing_note: Text
    operating_layers: Annotated[tuple[Layer, ...], Meta(min_length=1)]
    products: tuple[Product, ...]
    first_engagement: FirstEngagement


def read_document(raw: bytes) -> StudioCatalogue:
    """Parse the YAML file. Raises DocumentError with the line of the first error."""
    root = _parse_yaml(raw)
    try:
        catalogue = msgspec.convert(_plain(root), StudioCatalogue)
    except msgspec.ValidationError as error:
        reason, _, where = str(error).partition(" - at `$")
        path = where.rstrip("`")
        raise DocumentError(
            _line_at(root, path), f"{path.lstrip('.') or 'the document'}: {reason[:1].lower()}{reason[1:]}"
        ) from None
    first = next(chain(_duplicate_ids(catalogue), _reference_errors(catalogue)), None)
    if first:
        raise DocumentError(_line_at(root, f".{first[0]}"), ": ".join(first))
    return catalogue


def _parse_yaml(raw: bytes) -> yaml.Node:
    if len(raw) > MAX_BYTES:
        raise DocumentError(0, f"the file may have at most {MAX_BYTES} bytes")
    try:
        root = yaml.compose(raw.decode("utf-8"), Loader=yaml.SafeLoader)
    except UnicodeDecodeError as error:
        raise DocumentError(raw[: error.start].count(b"\n") + 1, "the file is not UTF-8") from None
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 0
        raise DocumentError(line, error.problem or "the file is not YAML") from None
    except (yaml.YAMLError, RecursionError) as error:
        raise DocumentError(0, f"the file is not YAML: {str(error).splitlines()[0]}") from None
    if root is None:
        raise DocumentError(1, "the file is empty")
    return root


def _plain(node: yaml.Node, depth: int = 0) -> Any:
    """The node's value. Rejects duplicate keys and deep nesting."""
    if depth > MAX_DEPTH:
        raise DocumentError(_line(node), "nested too deeply")
    if isinstance(node, yaml.SequenceNode):
        return [_plain(item, depth + 1) for item in node.value]
    if isinstance(node, yaml.MappingNode):
        members: dict[str, Any] = {}
        for key, value in node.value:
            if key.value in members:
                raise DocumentError(_line(key), f"{key.value}: duplicate key")
            members[key.value] = _plain(value, depth + 1)
        return members
    # A scalar is text, an integer or null. Unquoted dates and booleans stay text, as written.
    if node.tag == "tag:yaml.org,2002:null":
        return None
    text = str(node.value)
    is_whole = node.tag == "tag:yaml.org,2002:int" and text.isascii() and text.isdigit() and len(text) < 16
    return int(text) if is_whole else text


def _duplicate_ids(catalogue: StudioCatalogue) -> Iterator[tuple[str, str]]:
    """Path and reason of each repeated id."""
    for member, entries in (("operating_layers", catalogue.operating_layers), ("products", catalogue.products)):
        ids = [entry.id for entry in entries]
        for number, name in enumerate(ids):
            if name in ids[:number]:
                yield f"{member}[{number}].id", f"duplicate id {name}"


def _reference_errors(catalogue: StudioCatalogue) -> Iterator[tuple[str, str]]:
    """Path and reason of each wrong reference between layers and products, and of each wrong price."""
    layers = {layer.id: layer for layer in catalogue.operating_layers}
    products = {product.id: product for product in catalogue.products}
    for number, layer in enumerate(catalogue.operating_layers):
        for place, name in enumerate(layer.products):
            path = f"operating_layers[{number}].products[{place}]"
            if name not in products:
                yield path, f"product {name} does not exist"
            elif products[name].layer != layer.id:
                yield path, f"product {name} is in layer {products[name].layer}"
    for number, product in enumerate(catalogue.products):
        path = f"products[{number}]"
        if product.layer not in layers:
            yield f"{path}.layer", f"layer {product.layer} does not exist"
        elif product.id not in layers[product.layer].products:
            yield path, f"layer {product.layer} does not list {product.id}"
        price = product.indicative_price
        if price.highest is not None and price.highest < price.lowest:
            yield f"{path}.indicative_price.to", "must not be less than from"


def _line_at(root: yaml.Node, path: str) -> int:
    """The line of a path such as `.products[2].layer`, or of its nearest existing parent."""
    node, line = root, _line(root)
    for part in path.replace("[", ".[").split("."):
        if not part:
            continue
        child = _child(node, part)
        if child is None:
            break
        line, node = child
    return line


def _child(node: yaml.Node, part: str) -> tuple[int, yaml.Node] | None:
    if part.startswith("[") and isinstance(node, yaml.SequenceNode):
        item = node.value[int(part[1:-1])]
        return _line(item), item
    if isinstance(node, yaml.MappingNode):
        return next(((_line(key), value) for key, value in node.value if key.value == part), None)
    return None


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


ServedFrom = Literal["file", "last-good-copy"]


class EditError(Struct, frozen=True):
    """Why the newest edit was rejected. `line` counts from 1; null if unknown."""

    line: int | None
    reason: str
    seen_at: str


class DocumentStatus(Struct, frozen=True):
    """Which version is served, since when, and the error in the newest edit, if any."""

    file: str
    version: str
    served_from: ServedFrom
    loaded_at: str
    problem: EditError | None


class NoDocumentError(SettingError):
    """Neither the file nor the copy of its last valid version can be served."""


class DocumentSource:
    """The current document. Raises NoDocumentError if there is no valid version at all."""

    def __init__(self, file: Path, data_dir: Path) -> None:
        self._file = file
        self._copy = data_dir / LAST_GOOD
        self._stamp = file_stamp(file)
        self._problem: EditError | None = None
        self._served_from: ServedFrom = "file"
        try:
            raw = _read(file)
            self._serve(read_document(raw))
            self._save_copy(raw)
        except DocumentError as error:
            self._reject(error)
            try:
                self._serve(read_document(_read(self._copy)))
            except DocumentError:
                raise NoDocumentError(f"studio_file: {self._file}: {error}") from None
            self._served_from = "last-good-copy"

    @property
    def response(self) -> Response:
        return self._response

    def status(self) -> DocumentStatus:
        return DocumentStatus(self._file.name, self._version, self._served_from, self._loaded_at, self._problem)

    async def watch(self) -> None:
        while True:
            await asyncio.sleep(POLL_SECONDS)
            await asyncio.to_thread(self.poll)

    def poll(self) -> None:
        """Reload the file if it changed. An invalid edit is rejected and the served version stays."""
        stamp = file_stamp(self._file)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            raw = _read(self._file)
            catalogue = read_document(raw)
        except DocumentError as error:
            self._reject(error)
            return
        self._problem = None
        self._served_from = "file"
        self._serve(catalogue)
        self._save_copy(raw)
        log.info("studio document reloaded", version=catalogue.version)

    def _serve(self, catalogue: StudioCatalogue) -> None:
        body = msgspec.json.encode(catalogue)
        self._response = Response(body, etag=compute_etag(body))
        self._version = catalogue.version
        self._loaded_at = clock.iso(clock.now())

    def _save_copy(self, raw: bytes) -> None:
        """Replace the copy atomically. Without write access the service continues without a copy."""
        temporary = self._copy.with_name(f"{LAST_GOOD}.{secrets.token_hex(4)}")
        try:
            self._copy.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_bytes(raw)
            os.replace(temporary, self._copy)  # noqa: PTH105
        except OSError as error:
            log.warning("copy of the studio document not saved", error=str(error))
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)

    def _reject(self, error: DocumentError) -> None:
        self._problem = EditError(error.line or None, error.reason, clock.iso(clock.now()))
        log.error("studio document rejected", file=str(self._file), line=error.line, reason=error.reason)


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise DocumentError(0, f"the file cannot be read: {error.strerror}") from None
