"""Train the parser of questions: `python -m tools.train_question_parser OUT.npz`.

Needs PyTorch (`pip install torch`), which nothing else here does. It learns from labelled questions and their
paraphrases, which ask the same (data/question_paraphrases.jsonl), with the queries of data/question_queries.jsonl, that
`tools.question_queries` works out; not from the questions that measure it or that its thresholds are chosen on. Forms
that few people use are made with their questions by `question_generator.forms`, and questions to services that do not
exist by `question_generator.relations`, so that it reads vocabularies that it has not seen.
"""

import math
import random
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
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
from tollhouse.questions.parser import HEADS, MOST_LEAF, MOST_LETTERS
from tollhouse.questions.parser_input import FEATURES, UNKNOWN, VALUE, ParserInput, letters, parser_input
from tollhouse.questions.plans import GRAMMAR, NAMES, ORDERING, NoPlan, Token, encode, following, key
from tollhouse.questions.query import Query, Refusal
from tollhouse.questions.years import with_years
from tollhouse.vectors import text_vectors
from tools.question_engines import SERVICES, engine_of, service_of
from tools.question_generator import forms, relations
from tools.question_queries import KnownQuery, known_queries, labelled, paraphrases

STEPS, BATCH, RATE, DROPOUT = 11_500, 48, 1.2e-3, 0.2
WIDTH, INNER, BLOCKS = 160, 320, 2
# Shares of labelled, paraphrased and formed questions in a batch, of the first two to tables, and of invented ones.
SHARES = (0.33, 0.36, 0.05, 0.11, 0.15)
INVENTED = 12_000
# A share of the questions to services is read as if the names of what these declare were not known.
UNNAMED = 0.25
# How often a function word is made unknown, and an unknown word is put in, so that both are learned.
FORGOTTEN, INSERTED = 0.12, 0.15
MOST_PLACES, MOST_STEPS, MOST_FEATURES = 96, 64, 16
_SYMBOLS = list(GRAMMAR)
_TYPES = ("kind", "condition", "link", "attribute", "relation", "operation", "number", "word", "order")
_DEVICE = "cpu"


class Example(Struct):
    """A question with the plan to learn. `steps` are the places of the right leaves, or the name, of each token.

    `takes_words`: an unknown word that is put in changes nothing.
    """

    question: ParserInput
    steps: list[str | list[int]]
    symbols: list[int]
    is_function: list[bool]
    takes_words: bool = True


class Case(Struct):
    """A question: what the conversation asked before, and the reading that is right."""

    text: str
    before: Query | None
    right: Query | Refusal


def main() -> int:
    torch.set_num_threads(1)
    pools: list[list[Example]] = [[] for _ in SHARES]
    known, said = known_queries(), paraphrases()
    for name in dict.fromkeys(each.partition(":")[0] for each in known):
        engine = engine_of(service_of(name))
        own = [(line, known[f"{name}:{line.id}"]) for line in labelled(name) if f"{name}:{line.id}" in known]
        texts = [_case(text, query) for _, query in own for text in said.get(query.id, ())]
        learned = (
            list(_examples(engine, [_case(line.conversation[-1], query) for line, query in own])),
            list(_examples(engine, texts)),
        )
        pools[0] += learned[0]
        pools[1] += learned[1]
        if service_of(name) not in SERVICES:
            pools[3] += learned[0] + learned[1]
    for service in SERVICES:
        engine = engine_of(service)
        pools[2] += _examples(engine, (Case(text, None, query) for text, query in forms.cases(service, engine)))
    for engine, *case in relations.cases(INVENTED):
        # They have their own unknown words: those beside a noun leave a question without a query.
        pools[4] += (replace(each, takes_words=False) for each in _examples(engine, (Case(*case),)))
    print(
        f"{[len(pool) for pool in pools]} labelled, paraphrased, formed, tables' and invented questions",
        file=sys.stderr,
    )
    weights = _train(pools)
    _write(weights, Path(sys.argv[1]))
    return 0


def _case(text: str, known: KnownQuery) -> Case:
    return Case(text, known.before, known.right)


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
        is_function = [bool(item.meanings) and item.meanings[0].role == "function" for item in linked.items]
        yield Example(question, _places(tokens, question.leaves), _symbols(tokens), is_function)


def _is_ordered(leaf: Token, question: ParserInput) -> bool:
    is_attribute = isinstance(leaf, Leaf) and leaf.type == "attribute"
    return not is_attribute or question.leaves.index(leaf) in question.ordered


def _places(tokens: Sequence[Token], leaves: Sequence[Leaf]) -> list[str | list[int]]:
    """For each token its name, or the places of the leaves that mean the same, those with words first."""
    groups: dict[Any, list[int]] = {}
    for place, leaf in enumerate(leaves):
        groups.setdefault((leaf.type, key(leaf.value)), []).append(place)
    for places in groups.values():
        places.sort(key=lambda place: leaves[place].item == IMPLIED)
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


def _batch(examples: Sequence[Example], randomly: random.Random) -> dict[str, Any]:
    """Examples of about the same size as arrays, with words forgotten and inserted."""
    size, places = len(examples), max(len(each.question.features) for each in examples) + 1
    count, steps = max(len(each.question.leaves) for each in examples), max(len(each.steps) for each in examples)
    arrays: dict[str, Any] = {
        "features": np.full((size, places, MOST_FEATURES), FEATURES),
        "letters": np.full((size, places, MOST_LETTERS), FEATURES),
        "vectors": np.zeros((size, places, text_vectors().dimensions), np.float32),
        "is_shown": np.zeros((size, places), np.float32),
        "is_item": np.zeros((size, places), bool),
        "leaf_items": np.zeros((size, count), np.int64),
        "leaf_kinds": np.zeros((size, count), np.int64),
        "last_name": np.full((size, steps), len(NAMES)),
        "last_leaf": np.full((size, steps), count),
        "symbols": np.zeros((size, steps), np.int64),
        "allowed": np.zeros((size, steps, len(NAMES) + count), bool),
        "right": np.zeros((size, steps, len(NAMES) + count), bool),
        "is_step": np.zeros((size, steps), bool),
    }
    kinds: dict[tuple[tuple[int, ...], str], int] = {((), ""): 0}
    for row, example in enumerate(examples):
        at = _fill_items({name: array[row] for name, array in arrays.items()}, example, randomly)
        _fill_steps({name: array[row] for name, array in arrays.items()}, example, at, places, kinds)
    arrays["kind_features"] = np.full((len(kinds), MOST_LEAF), FEATURES)
    for (features, _), number in kinds.items():
        arrays["kind_features"][number, : len(features)] = features
    arrays["kind_vectors"] = np.stack([_vector(words) for _, words in kinds])
    return {name: torch.from_numpy(array).to(_DEVICE) for name, array in arrays.items()}


def _fill_items(row: Mapping[str, Any], example: Example, randomly: random.Random) -> list[int]:
    """Write the items of an example; the place of each."""
    question = example.question
    is_inserted = example.takes_words and randomly.random() < INSERTED
    inserted = randomly.randrange(len(example.is_function) + 1) if is_inserted else -1
    at: list[int] = []
    place = 0
    for number, features in enumerate(question.features):
        if number == inserted:
            word = randomly.choice(_common_words())
            _fill_item(row, place, (UNKNOWN,), word, letters(word))
            place += 1
        at.append(place)
        kept = features[:MOST_FEATURES]
        if number < len(example.is_function) and example.is_function[number] and randomly.random() < FORGOTTEN:
            kept = (UNKNOWN, features[-1])
        # Names of the data are mostly hidden, so that they are not learned.
        is_hidden = VALUE in kept and randomly.random() < 0.7
        said = "" if is_hidden else question.words[number]
        _fill_item(row, place, kept, said, question.shapes[number])
        place += 1
    return at


def _fill_item(row: Mapping[str, Any], place: int, features: Sequence[int], said: str, shape: Sequence[int]) -> None:
    row["features"][place, : len(features)] = features
    row["is_item"][place] = True
    if said:
        row["letters"][place, : len(shape[:MOST_LETTERS])] = shape[:MOST_LETTERS]
        row["vectors"][place] = _vector(said)
        row["is_shown"][place] = 1


def _fill_steps(
    row: Mapping[str, Any],
    example: Example,
    at: Sequence[int],
    places: int,
    kinds: dict[tuple[tuple[int, ...], str], int],
) -> None:
    """Write the leaves and the steps of an example. Leaves of the same features and words are one of `kinds`."""
    leaves = example.question.leaves
    for place, leaf in enumerate(leaves):
        row["leaf_items"][place] = places if leaf.item == IMPLIED else at[leaf.item]
        kind = example.question.leaf_features[place][:MOST_LEAF], example.question.leaf_words[place]
        row["leaf_kinds"][place] = kinds.setdefault(kind, len(kinds))
    for step, right in enumerate(example.steps):
        rules = GRAMMAR[_SYMBOLS[example.symbols[step]]]
        row["is_step"][step], row["symbols"][step] = True, example.symbols[step]
        row["allowed"][step, : len(NAMES)] = [name in rules for name in NAMES]
        before = example.steps[step - 1] if step else ""
        is_ordering = isinstance(before, str) and before in ORDERING
        row["allowed"][step, len(NAMES) : len(NAMES) + len(leaves)] = [
            f"@{leaf.type}" in rules
            and (not is_ordering or leaf.type != "attribute" or place in example.question.ordered)
            for place, leaf in enumerate(leaves)
        ]
        row["right"][step, [NAMES.index(right)] if isinstance(right, str) else [len(NAMES) + n for n in right]] = True
        if step + 1 < len(example.steps):
            if isinstance(right, str):
                row["last_name"][step + 1] = NAMES.index(right)
            else:
                row["last_leaf"][step + 1] = right[0]


@lru_cache(maxsize=100_000)
def _vector(text: str) -> Any:
    return text_vectors().embed([text])[0]


def _common_words() -> tuple[str, ...]:
    return tuple(word for word in text_vectors().whole_words[:6000] if len(word) > 2)


def _train(pools: Sequence[Sequence[Example]]) -> dict[str, Any]:
    """The average of the last weights."""
    torch.manual_seed(0)
    randomly = random.Random(0)  # noqa: S311
    network = Network()
    averaged = {name: value.clone() for name, value in network.state_dict().items()}
    optimiser = torch.optim.AdamW(network.parameters(), lr=RATE, weight_decay=0.02)
    batches: list[list[Example]] = []
    for step in range(1, STEPS + 1):
        if not batches:
            drawn = [randomly.choice(randomly.choices(pools, SHARES)[0]) for _ in range(BATCH * 8)]
            drawn.sort(key=lambda each: len(each.question.features) + len(each.steps))
            batches = [drawn[at : at + BATCH] for at in range(0, len(drawn), BATCH)]
            randomly.shuffle(batches)
        for group in optimiser.param_groups:
            group["lr"] = RATE * min(1, step / 200) * (0.5 * (1 + math.cos(math.pi * step / STEPS)) + 0.02)
        batch = _batch(batches.pop(), randomly)
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
