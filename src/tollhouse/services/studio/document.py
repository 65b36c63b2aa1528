"""The studio's document: its types, and a YAML parser that reports errors with line and reason."""

from collections.abc import Iterator
from itertools import chain
from typing import Annotated, Any, Literal

import msgspec
import yaml
from msgspec import Meta, Struct, field

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
