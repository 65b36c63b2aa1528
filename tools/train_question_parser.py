"""Train the parser of questions: `python -m tools.train_question_parser OUT.npz [--begin IN.npz ...]`.

Needs PyTorch (`pip install torch`), which nothing else here does. It learns from labelled questions and their
paraphrases, which ask the same (data/question_paraphrases.jsonl), with the queries of data/question_queries.jsonl, that
`tools.question_queries` works out; not from the questions that measure it or that its thresholds are chosen on. Forms
that few people use are made with their questions by `question_generator.forms`, and questions to services that do not
exist by `question_generator.relations`, so that it reads vocabularies that it has not seen. In some questions a word
of the vocabulary gives place to a near one that is not known, so that unknown words are read by their vectors.
With `--begin` the training goes on from weights that were trained before, or from the mean of several; with `--steps 0`
that mean is what is written. Weights that were trained on from the same ones with different seeds can be averaged so.
"""

import argparse
import math
import random
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from msgspec import Struct
from msgspec.structs import replace
from torch import nn
from torch.nn import functional

from tollhouse.questions.answering import Engine
from tollhouse.questions.leaves import IMPLIED, Leaf
from tollhouse.questions.linking import Item
from tollhouse.questions.normalise import language_of, tokenise
from tollhouse.questions.parser import HEADS, MOST_LEAF, MOST_LETTERS, read_weights
from tollhouse.questions.parser_input import FEATURES, UNKNOWN, VALUE, ParserInput, letters, parser_input
from tollhouse.questions.plans import GRAMMAR, NAMES, ORDERING, NoPlan, Token, following, key
from tollhouse.questions.query import Query, Refusal
from tollhouse.questions.years import with_years
from tollhouse.vectors import text_vectors
from tools.question_encoding import encode
from tools.question_engines import SERVICES, engine_of, service_of
from tools.question_generator import forms, relations
from tools.question_queries import KnownQuery, known_queries, labelled, paraphrases

STEPS, BATCH, RATE, DROPOUT = 40_000, 48, 1.0e-3, 0.12
WIDTH, INNER, BLOCKS = 160, 320, 2
# Shares of labelled, paraphrased and formed questions in a batch, of the first two to tables, and of invented ones.
SHARES = (0.34, 0.25, 0.11, 0.14, 0.16)
# So many questions of forms are made for each service, and to invented ones.
FORMED, INVENTED = 3_600, 12_000
# How often a labelled question to a service is put beside a clause that says nothing.
LED = 0.12
# How often a labelled or paraphrased question is repeated with an unknown word, which is so near to the known one.
REWORDED, NEAR, MOST_NEAR = 0.6, 0.55, 8
_CONTENT = ("attribute", "extreme", "kind", "party", "stranded", "transitive", "unit", "verb")
# A share of the questions to services is read as if the names of what these declare were not known.
UNNAMED = 0.25
# How often a function word is made unknown, and an unknown word is put in, so that both are learned.
FORGOTTEN, INSERTED = 0.12, 0.05
# How often a name or a value of the data is hidden.
HIDDEN = 0.7
MOST_PLACES, MOST_STEPS, MOST_FEATURES = 96, 64, 16
# What a name that is new to the grammar begins with.
LEAST_BIAS = 3.0
_SYMBOLS = list(GRAMMAR)
_TYPES = ("kind", "condition", "link", "attribute", "relation", "operation", "number", "word", "order")


class Example(Struct):
    """A question with the plan to learn, as arrays that batches are filled with.

    Of each item: features, letters, the place of its vector, whether it is a function word or a value. Of each leaf:
    its item, the place of its features and words among all, its type, whether it may follow an order. Of each step:
    its symbol, whether it follows an order, and the places of what is right: names, then leaves.
    `takes_words`: an unknown word that is put in changes nothing.
    """

    features: Any
    letters: Any
    vectors: Any
    is_function: Any
    is_value: Any
    leaf_items: Any
    leaf_kinds: Any
    leaf_types: Any
    is_ordered: Any
    symbols: Any
    is_ordering: Any
    right: list[list[int]]
    takes_words: bool = True

    @property
    def size(self) -> int:
        return len(self.features) + len(self.symbols)


class Case(Struct):
    """A question: what the conversation asked before, and the reading that is right."""

    text: str
    before: Query | None
    right: Query | Refusal


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--rate", type=float, default=RATE)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--begin", type=Path, nargs="*", default=())
    options = parser.parse_args()
    torch.set_num_threads(1)
    _write(_train(_pools() if options.steps else [], options), options.out)
    return 0


def _pools() -> list[list[Example]]:
    """The examples that batches are drawn from, as SHARES says."""
    pools: list[list[Example]] = [[] for _ in SHARES]
    known, said = known_queries(), paraphrases()
    for name in dict.fromkeys(each.partition(":")[0] for each in known):
        engine = engine_of(service_of(name))
        own = [(line, known[f"{name}:{line.id}"]) for line in labelled(name) if f"{name}:{line.id}" in known]
        asked = [_case(line.conversation[-1], query) for line, query in own]
        texts = [_case(text, query) for _, query in own for text in said.get(query.id, ())]
        learned = [list(_examples(engine, [*cases, *_reworded(engine, cases)])) for cases in (asked, texts)]
        pools[0] += learned[0]
        pools[1] += learned[1]
        if service_of(name) in SERVICES:
            pools[2] += _examples(engine, _led(engine, asked))
        if service_of(name) not in SERVICES:
            pools[3] += learned[0] + learned[1]
    for service in SERVICES:
        engine = engine_of(service)
        pools[2] += _examples(engine, (Case(text, None, query) for text, query in forms.cases(service, engine, FORMED)))
    for engine, *case in relations.cases(INVENTED):
        # They have their own unknown words: those beside a noun leave a question without a query.
        pools[4] += (replace(each, takes_words=False) for each in _examples(engine, (Case(*case),)))
    print(
        f"{[len(pool) for pool in pools]} labelled, paraphrased, formed, tables' and invented questions",
        file=sys.stderr,
    )
    return pools


def _case(text: str, known: KnownQuery) -> Case:
    return Case(text, known.before, known.right)


def _led(engine: Engine, cases: Iterable[Case]) -> Iterator[Case]:
    """Some of the questions beside a clause that says nothing."""
    randomly = random.Random(0)  # noqa: S311
    for case in cases:
        if isinstance(case.right, Refusal) or case.before is not None or randomly.random() >= LED:
            continue
        language = language_of(tokenise(case.text))
        yield Case(relations.led(case.text, language, engine, randomly), None, case.right)


def _reworded(engine: Engine, cases: Iterable[Case]) -> Iterator[Case]:
    """Some of the English questions with an unknown word for a near one of the vocabulary."""
    randomly = random.Random(0)  # noqa: S311
    for case in cases:
        linked = engine.question(case.text).linked(())
        if linked.language != "en" or randomly.random() >= REWORDED:
            continue
        choices = [
            (item.text, other)
            for item in linked.items
            if item.meanings and item.meanings[0].role in _CONTENT
            for other in _near(item.text.lower())
            if engine.question(other).linked(()).items[0].find("unknown")
        ]
        if choices:
            known, unknown = randomly.choice(choices)
            yield replace(case, text=re.sub(rf"\b{known}\b", unknown, case.text, count=1))


@cache
def _near(word: str) -> list[str]:
    """Frequent words whose vectors are near to that of a frequent word, the nearest first."""
    others = text_vectors().whole_words
    if word not in others:
        return []
    alike = _vectors_of(others) @ text_vectors().embed([word])[0]
    nearest = np.argsort(-alike)[1 : MOST_NEAR + 1]
    return [others[place] for place in nearest if alike[place] >= NEAR and len(others[place]) > 2]


@cache
def _vectors_of(texts: tuple[str, ...]) -> Any:
    return text_vectors().embed(texts)


def _examples(engine: Engine, cases: Iterable[Case]) -> Iterator[Example]:
    """What to learn of the cases that have a plan and are not too long for the network."""
    randomly = random.Random(0)  # noqa: S311
    for case in cases:
        corrections = next(engine.linker.spellings(case.text), (0.0, ()))[1]
        dataset = engine.dataset
        linked = engine.linker.link(case.text, dataset.now, dataset.hours, corrections=corrections)
        linked = with_years(linked, engine.linker)
        is_named = engine.linker.declaration.is_learned and randomly.random() >= UNNAMED
        question = parser_input(linked, engine.linker, case.before, is_named=is_named)
        try:
            tokens = encode(case.right, question.leaves, case.before)
        except NoPlan:
            continue
        # A batch has a place for a word that is put in.
        if len(question.features) >= MOST_PLACES or len(tokens) > MOST_STEPS:
            continue
        if not all(_is_ordered(leaf, question) for name, leaf in pairwise(tokens) if name in ORDERING):
            continue
        # The rows of a table have one kind, whatever noun names it.
        is_table = len(dataset.declaration.kinds) == 1
        yield _example(question, tokens, [_is_forgettable(item, is_table=is_table) for item in linked.items])


def _is_forgettable(item: Item, *, is_table: bool) -> bool:
    """Whether a question without knowledge of a word means the same."""
    if is_table and item.find("kind") is not None:
        return True
    return bool(item.meanings) and item.meanings[0].role == "function"


def _example(question: ParserInput, tokens: Sequence[Token], is_function: Sequence[bool]) -> Example:
    items = len(question.features)
    steps = _places(tokens, question.leaves)
    names = [step if isinstance(step, str) else "" for step in steps]
    others = [False] * (items - len(is_function))
    kinds = zip(question.leaf_features, question.leaf_words, strict=True)
    return Example(
        _padded(question.features, MOST_FEATURES),
        _padded(question.shapes, MOST_LETTERS),
        np.array([_TEXTS.place(said) for said in question.words], np.int32),
        np.array([*is_function[:items], *others], bool),
        np.array([VALUE in features for features in question.features], bool),
        np.array([leaf.item for leaf in question.leaves], np.int16),
        np.array([_KINDS.place((features[:MOST_LEAF], words)) for features, words in kinds], np.int32),
        np.array([_TYPES.index(leaf.type) for leaf in question.leaves], np.int8),
        np.array([leaf.type != "attribute" or n in question.ordered for n, leaf in enumerate(question.leaves)], bool),
        np.array(_symbols(tokens), np.int16),
        np.array([name in ORDERING for name in ["", *names[:-1]]], bool),
        [[NAMES.index(step)] if isinstance(step, str) else [len(NAMES) + n for n in step] for step in steps],
    )


def _padded(rows: Sequence[Sequence[int]], width: int) -> Any:
    array = np.full((len(rows), width), FEATURES, np.int16)
    for place, row in enumerate(rows):
        array[place, : len(row[:width])] = row[:width]
    return array


class _Numbered:
    """Different things, each with its place."""

    def __init__(self) -> None:
        self.places: dict[Any, int] = {}

    def place(self, thing: Any) -> int:
        return self.places.setdefault(thing, len(self.places))


_TEXTS, _KINDS = _Numbered(), _Numbered()


def _is_ordered(leaf: Token, question: ParserInput) -> bool:
    is_attribute = isinstance(leaf, Leaf) and leaf.type == "attribute"
    return not is_attribute or question.leaves.index(leaf) in question.ordered


def _places(tokens: Sequence[Token], leaves: Sequence[Leaf]) -> list[str | list[int]]:
    """For each token its name, or the places of the leaves that mean the same.

    Those with words come first; where there are any, no condition is right that no word stands for.
    """
    groups: dict[Any, list[int]] = {}
    for place, leaf in enumerate(leaves):
        groups.setdefault((leaf.type, key(leaf.value)), []).append(place)
    for (type_, _), places in groups.items():
        places.sort(key=lambda place: leaves[place].item == IMPLIED)
        if type_ in ("condition", "link"):
            places[1:] = [place for place in places[1:] if leaves[place].item != IMPLIED]
    return [token if isinstance(token, str) else groups[token.type, key(token.value)] for token in tokens]


def _symbols(tokens: Sequence[Token]) -> list[int]:
    symbols: tuple[str, ...] = ("query",)
    found: list[int] = []
    for token in tokens:
        found.append(_SYMBOLS.index(symbols[0]))
        symbols = following(symbols, token)
    return found


class Block(nn.Module):
    """A transformer block; with `cross` it also reads what the encoder wrote. Named as `parser` reads the weights."""

    def __init__(self, *, cross: bool) -> None:
        super().__init__()
        self.n1, self.qkv, self.o = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        if cross:
            self.n2, self.q = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)
            self.kv, self.o2 = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.n3, self.f1, self.f2 = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, INNER), nn.Linear(INNER, WIDTH)
        self.drop = nn.Dropout(DROPOUT)

    def forward(self, read: Any, mask: Any, memory: Any = None, memory_mask: Any = None) -> Any:
        query, keys, values = self.qkv(self.n1(read)).chunk(3, -1)
        read = read + self.drop(self.o(_attend(query, keys, values, mask)))
        if memory is not None:
            keys, values = self.kv(memory).chunk(2, -1)
            read = read + self.drop(self.o2(_attend(self.q(self.n2(read)), keys, values, memory_mask)))
        return read + self.drop(self.f2(functional.relu(self.f1(self.n3(read)))))


def _attend(query: Any, keys: Any, values: Any, mask: Any) -> Any:
    batch, places, width = query.shape
    heads = [each.view(batch, -1, HEADS, width // HEADS).transpose(1, 2) for each in (query, keys, values)]
    made = functional.scaled_dot_product_attention(*heads, attn_mask=mask)
    return made.transpose(1, 2).reshape(batch, places, width)


class Network(nn.Module):
    """The network of `tollhouse.questions.parser`."""

    def __init__(self) -> None:
        super().__init__()
        self.emb = nn.EmbeddingBag(FEATURES + 1, WIDTH, mode="sum", padding_idx=FEATURES)
        self.shape = nn.EmbeddingBag(FEATURES + 1, WIDTH, mode="mean", padding_idx=FEATURES)
        self.word, self.leafw = (nn.Linear(text_vectors().dimensions, WIDTH, bias=False) for _ in range(2))
        self.pos, self.dpos = (nn.Parameter(torch.randn(n, WIDTH) * 0.1) for n in (MOST_PLACES, MOST_STEPS))
        self.enc = nn.ModuleList(Block(cross=False) for _ in range(BLOCKS))
        self.dec = nn.ModuleList(Block(cross=True) for _ in range(BLOCKS))
        self.encn, self.decn = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.implied = nn.Parameter(torch.randn(WIDTH) * 0.1)
        self.leaf, self.leaff, self.leafin = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.name, self.sym = nn.Embedding(len(NAMES) + 1, WIDTH), nn.Embedding(len(GRAMMAR), WIDTH)
        self.outn, self.ptr = nn.Linear(WIDTH, len(NAMES)), nn.Linear(WIDTH, WIDTH)
        self.drop = nn.Dropout(DROPOUT)
        for table in (self.emb, self.shape, self.name, self.sym):
            nn.init.normal_(table.weight, std=0.1)

    def forward(self, batch: Mapping[str, Any]) -> Any:
        """The logarithm of the probability of each name and leaf at each step."""
        size, places = batch["is_item"].shape
        shown = batch["is_shown"][..., None]
        read = self.emb(batch["features"].view(size * places, -1)).view(size, places, -1) + self.pos[:places]
        read = read + self.shape(batch["letters"].view(size * places, -1)).view(size, places, -1) * shown
        memory = self.drop(read + self.word(batch["vectors"]) * shown)
        mask = batch["is_item"][:, None, None, :]
        for block in self.enc:
            memory = block(memory, mask)
        memory = self.encn(memory)
        leaves = self._leaves(batch, memory)
        none = torch.zeros_like(leaves[:, :1])
        pointed = torch.gather(torch.cat([leaves, none], 1), 1, _wide(batch["last_leaf"]))
        steps = batch["last_name"].shape[1]
        state = self.drop(
            self.name(batch["last_name"]) + self.leafin(pointed) + self.sym(batch["symbols"]) + self.dpos[:steps]
        )
        causal = torch.tril(torch.ones(steps, steps, dtype=torch.bool))[None, None]
        for block in self.dec:
            state = block(state, causal, memory, mask)
        state = self.decn(state)
        scores = torch.einsum("bsd,bld->bsl", self.ptr(state), leaves) / math.sqrt(WIDTH)
        every = torch.cat([self.outn(state), scores], -1).masked_fill(~batch["allowed"], -1e9)
        return torch.log_softmax(every, -1)

    def _leaves(self, batch: Mapping[str, Any], memory: Any) -> Any:
        size = len(memory)
        said = self.leaf(torch.cat([memory, self.implied.expand(size, 1, -1)], 1))
        kinds = self.leaff(self.emb(batch["kind_features"])) + self.leafw(batch["kind_vectors"])
        return torch.gather(said, 1, _wide(batch["leaf_items"])) + functional.embedding(batch["leaf_kinds"], kinds)


def _wide(places: Any) -> Any:
    return places[..., None].expand(-1, -1, WIDTH)


def _batch(examples: Sequence[Example], tables: Mapping[str, Any], randomly: np.random.Generator) -> dict[str, Any]:
    """Examples of about the same size as arrays, with words forgotten and inserted."""
    size, places = len(examples), max(len(each.features) for each in examples) + 1
    count, steps = max(len(each.leaf_items) for each in examples), max(len(each.symbols) for each in examples)
    names = len(NAMES)
    arrays: dict[str, Any] = {
        "features": np.full((size, places, MOST_FEATURES), FEATURES),
        "letters": np.full((size, places, MOST_LETTERS), FEATURES),
        "vectors": np.zeros((size, places, tables["vectors"].shape[1]), np.float32),
        "is_shown": np.zeros((size, places), np.float32),
        "is_item": np.zeros((size, places), bool),
        "leaf_items": np.zeros((size, count), np.int64),
        "leaf_kinds": np.zeros((size, count), np.int64),
        "last_name": np.full((size, steps), names),
        "last_leaf": np.full((size, steps), count),
        "symbols": np.zeros((size, steps), np.int64),
        "allowed": np.zeros((size, steps, names + count), bool),
        "right": np.zeros((size, steps, names + count), bool),
        "is_step": np.zeros((size, steps), bool),
    }
    for row, example in enumerate(examples):
        of_row = {name: array[row] for name, array in arrays.items()}
        at = _fill_items(of_row, example, tables, randomly)
        of_row["leaf_items"][: len(example.leaf_items)] = np.where(
            example.leaf_items == IMPLIED, places, at[example.leaf_items]
        )
        of_row["leaf_kinds"][: len(example.leaf_kinds)] = example.leaf_kinds
        _fill_steps(of_row, example, tables)
    kinds, arrays["leaf_kinds"] = np.unique(arrays["leaf_kinds"], return_inverse=True)
    arrays["leaf_kinds"] = arrays["leaf_kinds"].reshape(size, count)
    arrays["kind_features"] = tables["kind_features"][kinds].astype(np.int64)
    arrays["kind_vectors"] = tables["kind_vectors"][kinds]
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


def _fill_items(row: Mapping[str, Any], example: Example, tables: Mapping[str, Any], randomly: Any) -> Any:
    """Write the items of an example; the place of each."""
    count = len(example.features)
    at = np.arange(count)
    if example.takes_words and randomly.random() < INSERTED:
        inserted = int(randomly.integers(example.is_function.size + 1))
        at = at + (at >= inserted)
        features, said, shape, vector = tables["words"][randomly.integers(len(tables["words"]))]
        row["features"][inserted, 0], row["is_item"][inserted], row["is_shown"][inserted] = features, True, bool(said)
        row["letters"][inserted, : len(shape)], row["vectors"][inserted] = shape, vector
    is_forgotten = example.is_function & (randomly.random(count) < FORGOTTEN)
    kept = example.features.copy()
    kept[is_forgotten] = FEATURES
    kept[is_forgotten, 0] = UNKNOWN
    # Names of the data are mostly hidden, so that they are not learned.
    is_hidden = example.is_value & ~is_forgotten & (randomly.random(count) < HIDDEN)
    is_shown = ~is_hidden & tables["is_said"][example.vectors]
    row["features"][at], row["is_item"][at], row["is_shown"][at] = kept, True, is_shown
    row["letters"][at] = np.where(is_shown[:, None], example.letters, FEATURES)
    row["vectors"][at] = tables["vectors"][example.vectors] * is_shown[:, None]
    return at


def _fill_steps(row: Mapping[str, Any], example: Example, tables: Mapping[str, Any]) -> None:
    """Write the steps of an example."""
    symbols, names = example.symbols, len(NAMES)
    steps, leaves = len(symbols), len(example.leaf_types)
    row["is_step"][:steps], row["symbols"][:steps] = True, symbols
    row["allowed"][:steps, :names] = tables["names"][symbols]
    is_fitting = example.is_ordered[None] | ~example.is_ordering[:, None]
    row["allowed"][:steps, names : names + leaves] = tables["types"][symbols][:, example.leaf_types] & is_fitting
    for step, right in enumerate(example.right):
        row["right"][step, right] = True
        if step + 1 < steps:
            if right[0] < names:
                row["last_name"][step + 1] = right[0]
            else:
                row["last_leaf"][step + 1] = right[0] - names


def _tables() -> dict[str, Any]:
    """What examples point to: vectors and kinds of leaves, what each symbol allows, and words to be inserted."""
    kinds = list(_KINDS.places)
    texts = list(_TEXTS.places)
    words = [word for word in text_vectors().whole_words[:6000] if len(word) > 2]
    return {
        "vectors": text_vectors().embed(texts),
        "is_said": np.array([bool(text) for text in texts]),
        "kind_features": _padded([features for features, _ in kinds], MOST_LEAF),
        "kind_vectors": text_vectors().embed([said for _, said in kinds]),
        "names": np.array([[name in rules for name in NAMES] for rules in GRAMMAR.values()]),
        "types": np.array([[f"@{each}" in rules for each in _TYPES] for rules in GRAMMAR.values()]),
        "words": [(UNKNOWN, word, letters(word)[:MOST_LETTERS], text_vectors().embed([word])[0]) for word in words],
    }


def _train(pools: Sequence[Sequence[Example]], options: argparse.Namespace) -> dict[str, Any]:
    """The average of the last weights."""
    torch.manual_seed(options.seed)
    randomly = random.Random(options.seed)  # noqa: S311
    noise = np.random.default_rng(options.seed)
    tables = _tables()
    network = Network()
    if options.begin:
        begun = [_read(file) for file in options.begin]
        network.load_state_dict({name: sum(each[name] for each in begun) / len(begun) for name in begun[0]})
    averaged = {name: value.clone() for name, value in network.state_dict().items()}
    optimiser = torch.optim.AdamW(network.parameters(), lr=options.rate, weight_decay=0.02)
    batches: list[list[Example]] = []
    for step in range(1, options.steps + 1):
        if not batches:
            drawn = [randomly.choice(randomly.choices(pools, SHARES)[0]) for _ in range(BATCH * 8)]
            drawn.sort(key=lambda each: each.size)
            batches = [drawn[at : at + BATCH] for at in range(0, len(drawn), BATCH)]
            randomly.shuffle(batches)
        for group in optimiser.param_groups:
            group["lr"] = (
                options.rate * min(1, step / 200) * (0.5 * (1 + math.cos(math.pi * step / options.steps)) + 0.02)
            )
        batch = _batch(batches.pop(), tables, noise)
        likelihood = torch.logsumexp(network(batch).masked_fill(~batch["right"], -1e9), -1)
        loss = -(likelihood * batch["is_step"]).sum() / batch["is_step"].sum()
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimiser.step()
        with torch.no_grad():
            for name, value in network.state_dict().items():
                averaged[name].lerp_(value, 1 - min(0.998, step / (step + 20)))
        if step % 200 == 0:
            print(f"step {step}: loss {loss.item():.4f}", file=sys.stderr)
    return averaged


def _read(weights: Path) -> dict[str, Any]:
    """The weights that `_write` wrote; those of names that the grammar did not have then can be learned."""
    arrays = read_weights(weights)
    arrays["outn.bias"] = np.maximum(arrays["outn.bias"], -LEAST_BIAS)
    return {name: torch.from_numpy(np.array(array, np.float32)) for name, array in arrays.items()}


def _write(weights: Mapping[str, Any], out: Path) -> None:
    """Tables and matrices as small integers with a scale for each row."""
    stored: dict[str, Any] = {}
    for name, value in weights.items():
        array = value.numpy().astype(np.float32)
        if array.ndim == 2 and array.size > 4_000:
            scale = np.abs(array).max(axis=1) / 127
            scale[scale == 0] = 1
            stored[name], stored[f"{name}|scale"] = np.round(array / scale[:, None]).astype(np.int8), scale
        else:
            stored[name] = array
    made = {name: array if array.dtype == np.int8 else array.astype(np.float16) for name, array in stored.items()}
    np.savez_compressed(out, **made, names=np.array(NAMES), symbols=np.array(list(GRAMMAR)))


if __name__ == "__main__":
    sys.exit(main())
