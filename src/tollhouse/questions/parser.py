"""A small network that writes the query of a question: an encoder of its words, and a decoder that writes a plan.

Two transformer blocks read the items of a question, two write the tokens of a plan (`plans`), each a name of the
grammar or a leaf of the question. Only tokens that the grammar allows are considered, so that plans are well formed.
`tools/train_question_parser.py` trains it; data/question_parser.md says on what. Word vectors are those of `vectors`.
"""

from collections.abc import Mapping
from functools import cache, lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from tollhouse.questions.leaves import IMPLIED, Leaf
from tollhouse.questions.parser_input import VALUE, ParserInput
from tollhouse.questions.plans import GRAMMAR, NAMES, ORDERING, Token, following, key
from tollhouse.questions.query import Test
from tollhouse.vectors import text_vectors

Array = NDArray[np.float32]

BEAMS = 4
MOST_TOKENS = 56
HEADS = 4
# Plans and continuations that are less likely than this (log) are not followed.
UNLIKELY = -4.0
# And those that are so much less likely than the best.
WORSE = 3.0
_LEAVES_TRIED = 8

_LAYERS = frozenset(
    ("word", "leafw", "leaff", "leaf", "leafin", "outn", "ptr", "qkv", "o", "q", "kv", "o2", "f1", "f2")
)
_SYMBOLS = tuple(GRAMMAR)
_SYMBOL = {symbol: number for number, symbol in enumerate(_SYMBOLS)}
_NAME = {name: number for number, name in enumerate(NAMES)}
_ALLOWED = [np.array([_NAME[name] for name in rules if name in _NAME], np.intp) for rules in GRAMMAR.values()]
_POINTED = [frozenset(name[1:] for name in rules if name.startswith("@")) for rules in GRAMMAR.values()]


class Plan(Struct, frozen=True):
    """A plan and the logarithm of its probability."""

    score: float
    tokens: tuple[Token, ...]


class _Beam(Struct):
    score: float
    tokens: tuple[Token, ...]
    symbols: tuple[str, ...]
    parent: int
    last: int


class _Layer(Struct, frozen=True):
    """A matrix of inputs by outputs and a bias. `is_normed`: it reads rows of mean 0 and variance 1.

    The norm's own weights, and that it subtracts the mean, are folded into the matrix.
    """

    matrix: Array
    bias: Array | np.float32
    is_normed: bool = False

    def of(self, read: Array) -> Array:
        """The outputs for each row."""
        made: Array = read @ self.matrix
        if self.is_normed:
            width = np.float32(read.shape[-1])
            mean = read.sum(axis=-1) / width
            square = np.einsum("...i,...i->...", read, read) / width
            made *= (1 / np.sqrt(square - mean * mean + np.float32(1e-5)))[..., None]
        made += self.bias
        return made


class _Cross(Struct, frozen=True):
    """Attention to the items of one question, folded into two matrices: heads times items wide between them."""

    queries: _Layer
    answers: Array
    bias: Array | np.float32

    def of(self, read: Array) -> Array:
        weights = self.queries.of(read).reshape(len(read), HEADS, -1)
        weights = np.exp(weights - weights.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        made: Array = weights.reshape(len(read), -1) @ self.answers + self.bias
        return made


class QuestionParser:
    """The network. `weights` are named as in training."""

    def __init__(self, weights: Mapping[str, Array]) -> None:
        self._weights = weights
        self._width = int(weights["implied"].shape[0])
        self._blocks = {side: sum(f"{side}.{n}.o.weight" in weights for n in range(8)) for side in ("enc", "dec")}
        norms = {"qkv": "n1", "q": "n2", "f1": "n3", "kv": "encn", "leaf": "encn", "outn": "decn", "ptr": "decn"}
        self._layers: dict[str, _Layer] = {}
        self._known_leaves: dict[tuple[tuple[int, ...], str], Array] = {}
        for name in (each.removesuffix(".weight") for each in weights if each.endswith(".weight")):
            block, _, last = name.rpartition(".")
            if last in _LAYERS:
                norm = norms.get(last, "")
                self._layers[name] = self._layer(name, f"{block}.{norm}" if last in ("qkv", "q", "f1") else norm)

    def _layer(self, name: str, norm: str) -> _Layer:
        matrix = self._weights[f"{name}.weight"].T
        bias = self._weights.get(f"{name}.bias", np.zeros(matrix.shape[1], np.float32))
        if norm:
            bias = self._weights[f"{norm}.bias"] @ matrix + bias
            matrix = self._weights[f"{norm}.weight"][:, None] * matrix
            matrix = matrix - matrix.mean(axis=0)
        return _Layer(np.ascontiguousarray(matrix, np.float32), bias.astype(np.float32), bool(norm))

    def plans(self, question: ParserInput) -> list[Plan]:
        """The likeliest plans of a question, best first."""
        weights = self._weights
        memory = self._encoded(question)
        leaves = self._leaves(question, memory)
        cross = [self._cross(f"dec.{number}", memory) for number in range(self._blocks["dec"])]
        caches = [np.empty((2, BEAMS, MOST_TOKENS, self._width), np.float32) for _ in cross]
        names = weights["name.weight"]
        beams = [_Beam(0.0, (), ("query",), 0, len(NAMES))]
        previous = names[[len(NAMES)]]
        done: list[_Beam] = []
        groups = _Groups(question)
        for step in range(MOST_TOKENS):
            symbols = [_SYMBOL[beam.symbols[0]] for beam in beams]
            read = previous + weights["sym.weight"][symbols] + weights["dpos"][step]
            if step == 0:
                # Before the first token there is no leaf.
                read = read + weights["leafin.bias"]
            state = self._decoded(read, cross, caches, [beam.parent for beam in beams], step)
            results = self._continued(beams, state, leaves, groups)
            least = max(UNLIKELY, max((beam.score for beam in [*results, *done]), default=0.0) - WORSE)
            results = [beam for beam in results if beam.score > least]
            done += [beam for beam in results if not beam.symbols]
            beams = [beam for beam in results if beam.symbols]
            if not beams or (done and max(beam.score for beam in done) >= beams[0].score):
                break
            previous = np.stack([self._written(beam, leaves) for beam in beams])
        done.sort(key=lambda beam: -beam.score)
        return [Plan(beam.score, beam.tokens) for beam in done]

    def _written(self, beam: _Beam, leaves: Array) -> Array:
        """What the decoder reads of the last token."""
        weights, names = self._weights, self._weights["name.weight"]
        if beam.last < len(NAMES):
            named: Array = names[beam.last] + weights["leafin.bias"]
            return named
        written: Array = names[len(NAMES)] + self._of(leaves[beam.last - len(NAMES)], "leafin")
        return written

    def _encoded(self, question: ParserInput) -> Array:
        weights = self._weights
        shown = [
            "" if _is_value(features) else said
            for said, features in zip(question.words, question.features, strict=True)
        ]
        read = np.stack([weights["emb.weight"][list(features)].sum(axis=0) for features in question.features])
        for place, said in enumerate(shown):
            shape = question.shapes[place][:MOST_LETTERS]
            if said and shape:
                read[place] += weights["shape.weight"][list(shape)].mean(axis=0)
        vectors = np.stack([_vector(said) for said in shown])
        read = read + self._of(vectors, "word") + weights["pos"][: len(shown)]
        for number in range(self._blocks["enc"]):
            name = f"enc.{number}"
            query, keys, values = _parts(self._of(read, f"{name}.qkv"), 3)
            read = read + self._of(_attend(query[None], keys[None], values[None])[0], f"{name}.o")
            read = self._forward(read, name)
        return read

    def _leaves(self, question: ParserInput, memory: Array) -> Array:
        """One row for each leaf."""
        weights = self._weights
        places = [leaf.item if leaf.item != IMPLIED else len(memory) for leaf in question.leaves]
        implied = weights["implied"] @ weights["leaf.weight"].T + weights["leaf.bias"]
        said = np.concatenate([self._of(memory, "leaf"), implied[None]])[places]
        described = zip(question.leaf_features, question.leaf_words, strict=True)
        made: Array = said + np.stack([self._leaf(features[:MOST_LEAF], words) for features, words in described])
        return made

    def _leaf(self, features: tuple[int, ...], words: str) -> Array:
        """What is known of a leaf without its question. Most are leaves of every question to a service."""
        known = self._known_leaves.get((features, words))
        if known is None:
            if len(self._known_leaves) >= MOST_KNOWN:
                self._known_leaves.clear()
            summed = self._weights["emb.weight"][list(features)].sum(axis=0)
            known = self._of(summed, "leaff") + self._of(_vector(words), "leafw")
            self._known_leaves[features, words] = known
        return known

    def _cross(self, name: str, memory: Array) -> "_Cross":
        """What a block of the decoder asks the items of a question, and what they answer."""
        queries, outputs = self._layers[f"{name}.q"], self._layers[f"{name}.o2"]
        keys, values = (_by_head(part) for part in _parts(self._of(memory, f"{name}.kv"), 2))
        scale = np.float32(np.sqrt(self._width // HEADS))
        folded = _by_head(queries.matrix) @ keys.transpose(0, 2, 1) / scale
        bias = _by_head(np.broadcast_to(queries.bias, (1, self._width))) @ keys.transpose(0, 2, 1) / scale
        answers = values @ outputs.matrix.reshape(HEADS, -1, self._width)
        layer = _Layer(np.concatenate(folded, axis=1), np.concatenate(bias, axis=1)[0], queries.is_normed)
        return _Cross(layer, answers.reshape(-1, self._width), outputs.bias)

    def _decoded(self, read: Array, cross: list["_Cross"], caches: list[Array], parents: list[int], step: int) -> Array:
        """The state of each beam after its last token; `caches` keep what the tokens before left."""
        count = len(parents)
        for number, stored in enumerate(caches):
            name = f"dec.{number}"
            query, keys, values = _parts(self._of(read, f"{name}.qkv"), 3)
            if step and parents != list(range(count)):
                stored[:, :count, :step] = stored[:, parents, :step]
            stored[0, :count, step], stored[1, :count, step] = keys, values
            keys, values = stored[:, :count, : step + 1]
            read = read + self._of(_attend(query[:, None], keys, values)[:, 0], f"{name}.o")
            read = read + cross[number].of(read)
            read = self._forward(read, name)
        return read

    def _continued(self, beams: list[_Beam], state: Array, leaves: Array, groups: "_Groups") -> list[_Beam]:
        """The best continuations of all beams."""
        named = self._of(state, "outn")
        pointed = self._of(state, "ptr") @ leaves.T / np.float32(np.sqrt(self._width))
        results: list[_Beam] = []
        for number, beam in enumerate(beams):
            symbol = _SYMBOL[beam.symbols[0]]
            fitting = groups.fitting(symbol, beam.tokens[-1] if beam.tokens else "")
            places = np.concatenate([_ALLOWED[symbol], len(NAMES) + fitting])
            if len(places):
                scores = np.concatenate([named[number][_ALLOWED[symbol]], pointed[number][fitting]])
                scores = scores - _logsum(scores)
                best = _best(scores)
                results += groups.joined(beam, number, places[best], scores[best])
        results.sort(key=lambda each: -each.score)
        return results[:BEAMS]

    def _of(self, read: Array, name: str) -> Array:
        return self._layers[name].of(read)

    def _forward(self, read: Array, name: str) -> Array:
        inner = self._of(read, f"{name}.f1")
        return read + self._of(np.maximum(inner, 0, out=inner), f"{name}.f2")


# Of what is read of an item's letters and of a leaf, the first so many count.
MOST_LETTERS = 24
MOST_LEAF = 10
# So many leaves are kept as rows of numbers (3 MB).
MOST_KNOWN = 5_000


@lru_cache(maxsize=2_000)
def _vector(words: str) -> Array:
    vector: Array = text_vectors().embed([words])[0]
    return vector


def _is_value(features: tuple[int, ...]) -> bool:
    """Whether an item is a name or a value of the data, whose words do not matter."""
    return VALUE in features


def _best(scores: Array) -> NDArray[np.intp]:
    order = np.argsort(-scores)[:_LEAVES_TRIED]
    return order[scores[order] > UNLIKELY]


@lru_cache(maxsize=MOST_KNOWN)
def _meaning(leaf: Leaf) -> Any:
    """What a leaf means; the forms of a word in the texts, "server" and "servers", are the same."""
    return (leaf.type, leaf.value.attribute, leaf.item) if _is_text(leaf) else (leaf.type, key(leaf.value))


def _is_text(leaf: Leaf) -> bool:
    return isinstance(leaf.value, Test) and leaf.value.comparison == "contains"


class _Groups:
    """The leaves of one question; those that mean the same are one choice."""

    def __init__(self, question: ParserInput) -> None:
        self._leaves = leaves = question.leaves
        self._ordered = question.ordered
        numbers: dict[Any, int] = {}
        self._group = [numbers.setdefault(_meaning(leaf), place) for place, leaf in enumerate(leaves)]
        # For each form of a word in the texts the leaf that has all of them, which comes first.
        self._forms = {place: self._group[place] for place, leaf in enumerate(leaves) if _is_text(leaf)}
        self._fitting: dict[tuple[int, bool], NDArray[np.intp]] = {}

    def fitting(self, symbol: int, previous: Token) -> NDArray[np.intp]:
        """The places of the leaves that a symbol can point to after a token."""
        is_ordering = isinstance(previous, str) and previous in ORDERING
        known = self._fitting.get((symbol, is_ordering))
        if known is None:
            types = _POINTED[symbol]
            places = [
                place
                for place, leaf in enumerate(self._leaves)
                if leaf.type in types and (not is_ordering or leaf.type != "attribute" or place in self._ordered)
            ]
            known = self._fitting[symbol, is_ordering] = np.array(places, np.intp)
        return known

    def joined(self, beam: _Beam, number: int, places: NDArray[Any], scores: Array) -> list[_Beam]:
        """A beam's continuations; equal leaves are one, with the sum of their probabilities."""
        results: dict[int, _Beam] = {}
        for place, score in zip(places.tolist(), scores.tolist(), strict=True):
            at = place - len(NAMES)
            group = place if at < 0 else len(NAMES) + self._group[at]
            known = results.get(group)
            if known is not None:
                known.score = beam.score + float(np.logaddexp(known.score - beam.score, score))
                continue
            token: Token = NAMES[place] if at < 0 else self._leaves[self._forms.get(at, at)]
            symbols = following(beam.symbols, token)
            results[group] = _Beam(beam.score + score, (*beam.tokens, token), symbols, number, place)
        return list(results.values())


def _parts(made: Array, count: int) -> list[Array]:
    """What several matrices in one have made, side by side."""
    width = made.shape[-1] // count
    return [made[..., at : at + width] for at in range(0, made.shape[-1], width)]


def _by_head(rows: Array) -> Array:
    """Rows of the whole width as rows of each head: heads, rows, size."""
    split: Array = rows.reshape(len(rows), HEADS, -1).transpose(1, 0, 2)
    return split


def _attend(query: Array, keys: Array, values: Array) -> Array:
    """Attention of several heads. Shapes: batch, places, width."""
    batch, places, width = query.shape
    size = width // HEADS

    def split(each: Array) -> Array:
        return each.reshape(batch, -1, HEADS, size).transpose(0, 2, 1, 3)

    weights = split(query) @ split(keys).transpose(0, 1, 3, 2) / np.float32(np.sqrt(size))
    weights = np.exp(weights - weights.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    made: Array = (weights @ split(values)).transpose(0, 2, 1, 3).reshape(batch, places, width)
    return made


def _logsum(scores: Array) -> np.float32:
    most = scores.max()
    return np.float32(most + np.log(np.exp(scores - most).sum()))


@cache
def question_parser() -> QuestionParser:
    """The parser that comes with the package, read once."""
    with resources.as_file(resources.files("tollhouse.questions") / "data" / "question_parser.npz") as file:
        return QuestionParser(read_weights(file))


def read_weights(file: Path) -> dict[str, Array]:
    """The weights of a file by name, as those of the present grammar."""
    with np.load(file) as stored:
        scales = {name.removesuffix("|scale"): stored[name] for name in stored.files if name.endswith("|scale")}
        weights = {
            name: stored[name].astype(np.float32) * (scales[name][:, None] if name in scales else np.float32(1))
            for name in stored.files
            if not name.endswith("|scale") and name not in ("names", "symbols")
        }
        known = {part: stored[part].tolist() for part in ("names", "symbols")}
    return _as_now(weights, **known)


def _as_now(weights: dict[str, Array], names: list[str], symbols: list[str]) -> dict[str, Array]:
    """The weights of a grammar as those of the present one, whose further names it never writes.

    The row after the names is that of a leaf.
    """
    at = [names.index(name) if name in names else -1 for name in NAMES]
    is_new = np.array(at) < 0
    weights["name.weight"] = weights["name.weight"][[*at, len(names)]]
    weights["outn.weight"] = weights["outn.weight"][at]
    weights["outn.bias"] = np.where(is_new, np.float32(-1e9), weights["outn.bias"][at])
    weights["sym.weight"] = weights["sym.weight"][[symbols.index(name) if name in symbols else 0 for name in GRAMMAR]]
    return weights
