"""Train the weights of services/defense/events/classifier.py.

Usage: python -m tools.train_event_classifier MODEL_DIR TITLES.txt EXPORT… [--evaluate LABELS.jsonl]
MODEL_DIR holds all-MiniLM-L6-v2 (see tools/build_text_vectors.py), TITLES.txt unlabelled news titles, one per line; its
sentence vectors are kept beside it as TITLES.npz. The EXPORT files are those that the labels' URLs come from.
Rewrites data/event_classifier.npz. The same input gives the same file, up to rounding.

A teacher, small networks and a linear model on sentence vectors, learns from the labels (data/event_labels.jsonl)
and example phrases (data/event_phrases.jsonl). The served network works on static text vectors; it learns the
teacher's probabilities for all titles, and the labels. A linear correction by the rows' codes is then fitted to scores
of titles from networks that have not seen the titles' day. `--evaluate` prints figures for labelled titles by day, each
day judged by networks and a correction trained without it; `train` labels of the same day count too.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path

import msgspec
import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from tollhouse.services.defense.evaluation import rows_by_url
from tollhouse.services.defense.events.classifier import ROW_FEATURES, normalised, row_features, title_vectors
from tollhouse.services.defense.ingest.export_parser import Row
from tools.build_text_vectors import SentenceModel

DATA = Path(__file__).parent / "data"
OUTPUT = Path(__file__).parents[1] / "src/tollhouse/services/defense/data/event_classifier.npz"
CATEGORIES = ("battle", "protest", "economic", "political", "none")
# Chosen on labels that train nothing: see data/event_classifier.md.
THRESHOLDS = {"Battles": 0.5, "Protests": 0.42, "relevance": 0.7}

# Vectors of unit length are multiplied by this, so that weights of size 1 decide.
SCALE = 8.0
TEACHERS, STUDENTS = 5, 5
# A label weighs as much as this many titles, a title with violence, protest or trade up to five times an ordinary one.
LABEL_WEIGHT, RARE_WEIGHT = 12.0, 4.0
# Strength of the pull of the rows' correction to zero, in observations per unit.
ROWS_RIDGE = 2.0

Matrix = NDArray[np.float32]


class Label(Struct, frozen=True):
    """A labelled title. `day` is YYYYMMDD, empty for phrases; titles without a URL have no rows.

    Titles that are not ours to pass on are given by `title_hash`, the first 16 digits of their SHA-256, and read from
    the unlabelled titles.
    """

    category: str
    title: str = ""
    title_hash: str = ""
    day: str = ""
    url: str = ""


class Network(Struct, frozen=True):
    """Two layers: scores are rectified(x @ hidden + hidden_bias) @ output + output_bias."""

    hidden: Matrix
    hidden_bias: Matrix
    output: Matrix
    output_bias: Matrix

    def scores(self, values: Matrix) -> Matrix:
        answer: Matrix = np.maximum(values @ self.hidden + self.hidden_bias, 0) @ self.output + self.output_bias
        return answer


class Training(Struct, frozen=True):
    """How a network is trained: hidden units, passes, examples per step, first rate, pull to zero, share dropped."""

    size: int
    epochs: int
    batch: int
    rate: float
    decay: float
    dropout: float


TEACHER = Training(size=96, epochs=14, batch=64, rate=0.002, decay=0.02, dropout=0.4)
STUDENT = Training(size=64, epochs=8, batch=256, rate=0.004, decay=0.005, dropout=0.1)


class Titles(Struct, frozen=True):
    """All titles with their sentence vectors and static vectors, and the line of each."""

    line: dict[str, int]
    sentences: Matrix
    static: Matrix


def main(model: Path, titles_path: Path, exports: Sequence[Path], judged: Sequence[Label]) -> None:
    unlabelled = titles_path.read_text(encoding="utf-8").splitlines()
    labels = [*read_labels(DATA / "event_labels.jsonl", unlabelled), *read_labels(DATA / "event_phrases.jsonl")]
    titles = read_titles(model, [*unlabelled, *(label.title for label in (*labels, *judged))], titles_path)
    rows = rows_by_url(exports)
    days = sorted({label.day for label in labels if label.url})
    served = train(titles, labels, {label.title for label in judged})
    held_out = {day: train(titles, *without_day(labels, judged, day)) for day in days}
    covered = [label for label in labels if label.url in rows]
    correction = fit_rows(*row_data(titles, covered, held_out, rows))
    for day in days if judged else ():
        seen = [label for label in covered if label.day != day]
        known = [label for label in (*labels, *judged) if label.day == day and label.url]
        other = fit_rows(*row_data(titles, seen, held_out, rows)) if seen else correction
        scores, features, truth = row_data(titles, known, held_out, rows)
        report(day, normalised(scores + features @ other), truth)
    scores, features, truth = row_data(titles, covered, held_out, rows)
    shares = np.log(truth.mean(axis=0) + 0.01) - (features @ correction).mean(axis=0)
    save(served, correction, usual_features(rows), shares)


def train(titles: Titles, labels: Sequence[Label], unused: set[str]) -> list[Network]:
    """Networks on static vectors, taught by sentence vectors; titles in `unused` are not read at all."""
    lines = np.array([titles.line[label.title] for label in labels])
    truth = np.eye(len(CATEGORIES), dtype=np.float32)[[CATEGORIES.index(label.category) for label in labels]]
    weights = np.ones(len(labels), dtype=np.float32)
    known = titles.sentences[lines] * SCALE
    networks = [fit(known, truth, weights, TEACHER, seed) for seed in range(TEACHERS)]
    linear = fit_linear(known / 2, truth)
    taught = 0.75 * sum(normalised(network.scores(titles.sentences * SCALE)) for network in networks) / TEACHERS
    taught += 0.25 * normalised(titles.sentences * (SCALE / 2) @ linear[:-1] + linear[-1])
    free = np.array([line for title, line in titles.line.items() if title not in unused])
    values = np.vstack([titles.static[free], titles.static[lines]]) * SCALE
    goals = np.vstack([taught[free], truth * 0.95 + 0.01])
    weights = np.concatenate([1 + RARE_WEIGHT * taught[free, :3].sum(axis=1), np.full(len(lines), LABEL_WEIGHT)])
    weights = (weights / weights.mean()).astype(np.float32)
    return [fit(values, goals, weights, STUDENT, seed) for seed in range(STUDENTS)]


def fit(values: Matrix, goals: Matrix, weights: Matrix, how: Training, seed: int) -> Network:
    """A network that minimises the weighted cross-entropy to the goals, by Adam with a falling rate and dropout."""
    random = np.random.default_rng(seed)
    inputs, outputs = values.shape[1], goals.shape[1]
    parts = [
        random.normal(0, inputs**-0.5, (inputs, how.size)).astype(np.float32), np.zeros(how.size, np.float32),
        random.normal(0, how.size**-0.5, (how.size, outputs)).astype(np.float32), np.zeros(outputs, np.float32),
    ]  # fmt: skip
    first, second = [np.zeros_like(part) for part in parts], [np.zeros_like(part) for part in parts]
    step, steps = 0, how.epochs * -(-len(values) // how.batch)
    for _ in range(how.epochs):
        order = random.permutation(len(values))
        for start in range(0, len(order), how.batch):
            chosen = order[start : start + how.batch]
            given = values[chosen]
            inner = np.maximum(given @ parts[0] + parts[1], 0)
            kept = (random.random(inner.shape, dtype=np.float32) > how.dropout) / np.float32(1 - how.dropout)
            wrong = normalised((inner * kept) @ parts[2] + parts[3]) - goals[chosen]
            wrong *= weights[chosen, None] / np.float32(len(chosen))
            back = (wrong @ parts[2].T) * kept * (inner > 0)
            slopes = [given.T @ back, back.sum(axis=0), (inner * kept).T @ wrong, wrong.sum(axis=0)]
            step += 1
            pace = how.rate * (1 - step / steps)
            for at, slope in enumerate(slopes):
                first[at] = 0.9 * first[at] + 0.1 * slope
                second[at] = 0.999 * second[at] + 0.001 * slope * slope
                move = first[at] / (1 - 0.9**step) / (np.sqrt(second[at] / (1 - 0.999**step)) + 1e-8)
                shrink = how.decay * parts[at] if at in {0, 2} else 0.0
                parts[at] = (parts[at] - pace * (move + shrink)).astype(np.float32)
    return Network(*parts)


def fit_linear(values: Matrix, goals: Matrix, ridge: float = 2.0, steps: int = 250) -> Matrix:
    """Weights and, as the last line, biases of a linear model with a ridge, by Adam."""
    given = np.hstack([values, np.ones((len(values), 1), np.float32)])
    offset = np.zeros((len(given), goals.shape[1]), np.float32)
    return _descend(given, offset, goals, Descent(ridge, steps, free=1))


def fit_rows(scores: Matrix, features: Matrix, truth: Matrix) -> Matrix:
    """Weights of row features that are added to the titles' scores.

    Every feature speaks for or against "none"; of the categories, codes of violence only concern battles and codes of
    protest only protests: all else that labels of few days show is chance.
    """
    fitted = np.zeros((len(ROW_FEATURES), len(CATEGORIES)), np.float32)
    fitted[:, -1] = 1
    fitted[ROW_FEATURES.index("violence_codes"), CATEGORIES.index("battle")] = 1
    fitted[ROW_FEATURES.index("protest_codes"), CATEGORIES.index("protest")] = 1
    return _descend(features, scores, truth, Descent(ROWS_RIDGE, 400), fitted)


class Descent(Struct, frozen=True):
    """How a linear model is fitted: with a ridge except on the last `free` lines of its weights."""

    ridge: float
    steps: int
    free: int = 0


def _descend(values: Matrix, offset: Matrix, goals: Matrix, how: Descent, fitted: Matrix | float = 1.0) -> Matrix:
    """Weights that minimise the cross-entropy of offset + values @ weights, by Adam; zero where `fitted` is zero."""
    weights = np.zeros((values.shape[1], goals.shape[1]), np.float32)
    first, second = np.zeros_like(weights), np.zeros_like(weights)
    pulled = np.full((len(weights), 1), how.ridge / len(values), np.float32)
    pulled[len(weights) - how.free :] = 0
    for step in range(1, how.steps + 1):
        wrong = normalised(offset + values @ weights) - goals
        slope = values.T @ wrong / np.float32(len(values)) + pulled * weights
        slope = slope * fitted
        first, second = 0.9 * first + 0.1 * slope, 0.99 * second + 0.01 * slope * slope
        weights = weights - 0.05 * (1 - step / how.steps) * (first / (1 - 0.9**step)) / (
            np.sqrt(second / (1 - 0.99**step)) + 1e-9
        )
    return weights.astype(np.float32)


def row_data(
    titles: Titles, labels: Sequence[Label], networks: Mapping[str, Sequence[Network]], rows: Mapping[str, list[Row]]
) -> tuple[Matrix, Matrix, Matrix]:
    """Scores of the titles by networks without their day, features of their rows, and the truth, a line per label.

    Features are differences from the mean of all reports in `rows`.
    """
    usual = usual_features(rows)
    scores = np.zeros((len(labels), len(CATEGORIES)), np.float32)
    for at, label in enumerate(labels):
        given = titles.static[titles.line[label.title]][None] * SCALE
        scores[at] = sum(network.scores(given)[0] for network in networks[label.day]) / STUDENTS
    features = np.array([row_features(rows[label.url]) if label.url in rows else usual for label in labels], np.float32)
    truth = np.eye(len(CATEGORIES), dtype=np.float32)[[CATEGORIES.index(label.category) for label in labels]]
    return scores, features - usual, truth


def usual_features(rows: Mapping[str, list[Row]]) -> Matrix:
    """The mean features of all reports."""
    return np.mean([row_features(found) for found in rows.values()], axis=0).astype(np.float32)


def without_day(labels: Sequence[Label], judged: Sequence[Label], day: str) -> tuple[list[Label], set[str]]:
    """The labels of other days without copies of the day's titles, and the titles that are not to be read."""
    hidden = {label.title.lower() for label in (*labels, *judged) if label.day == day and label.url}
    kept = [label for label in labels if label.title.lower() not in hidden]
    return kept, {label.title for label in (*labels, *judged) if label.title.lower() in hidden}


def report(day: str, probabilities: Matrix, truth: Matrix) -> None:
    """Print precision and recall at the thresholds, the Brier scores and the number of labels."""
    relevant, relevant_truth = 1 - probabilities[:, -1], truth[:, -1] == 0
    named = (
        ("battles", probabilities[:, 0], truth[:, 0] == 1, THRESHOLDS["Battles"]),
        ("protests", probabilities[:, 1], truth[:, 1] == 1, THRESHOLDS["Protests"]),
        ("relevant", relevant, relevant_truth, THRESHOLDS["relevance"]),
    )
    for name, value, right, threshold in named:
        called = value >= threshold
        found = int((called & right).sum())
        print(
            f"{day} {name}: precision {found}/{called.sum()}, recall {found}/{right.sum()}, "
            f"Brier {((value - right) ** 2).mean():.4f}, n {len(right)}",
            file=sys.stderr,
        )


def save(networks: Sequence[Network], correction: Matrix, usual: Matrix, composed: Matrix) -> None:
    """Join the networks to one whose scores are their mean; SCALE goes into the weights."""
    np.savez_compressed(
        OUTPUT,
        hidden=np.hstack([network.hidden * SCALE for network in networks]).astype(np.float16),
        hidden_bias=np.concatenate([network.hidden_bias for network in networks]).astype(np.float16),
        output=np.vstack([network.output / len(networks) for network in networks]).astype(np.float16),
        output_bias=np.mean([network.output_bias for network in networks], axis=0).astype(np.float32),
        rows=correction.astype(np.float32),
        usual=usual,
        composed=composed.astype(np.float32),
        row_features=np.array(ROW_FEATURES),
        thresholds=np.frombuffer(msgspec.json.encode(THRESHOLDS), np.uint8),
    )


def read_titles(model: Path, texts: Sequence[str], titles_path: Path) -> Titles:
    """All distinct titles with both vectors; sentence vectors are read from and kept in a file beside the titles."""
    distinct = list(dict.fromkeys(texts))
    cache = titles_path.with_suffix(".npz")
    known: dict[str, Matrix] = {}
    if cache.exists():
        with np.load(cache) as stored:
            known = dict(zip(stored["titles"].tolist(), stored["vectors"].astype(np.float32), strict=True))
    missing = [title for title in distinct if title not in known]
    if missing:
        sentence_model = SentenceModel(model)
        known.update(
            zip(missing, sentence_model.embed([sentence_model.tokens(title) for title in missing]), strict=True)
        )
        vectors = np.array(list(known.values()), np.float16)
        np.savez_compressed(cache, titles=np.array(list(known)), vectors=vectors)
    sentences = np.array([known[title] for title in distinct], np.float32)
    line = {title: at for at, title in enumerate(distinct)}
    return Titles(line, sentences, title_vectors(distinct))


def read_labels(path: Path, titles: Iterable[str] = ()) -> list[Label]:
    """The labels of a file, without those whose title is neither in it nor among `titles`."""
    labels = [msgspec.json.decode(line, type=Label) for line in path.read_bytes().splitlines() if line.strip()]
    known = {sha256(title.encode()).hexdigest()[:16]: title for title in titles}
    named = [label if label.title else replace(label, title=known.get(label.title_hash, "")) for label in labels]
    return [label for label in named if label.title]


if __name__ == "__main__":
    arguments = sys.argv[1:]
    judged = read_labels(Path(arguments[arguments.index("--evaluate") + 1])) if "--evaluate" in arguments else []
    if judged:
        del arguments[arguments.index("--evaluate") : arguments.index("--evaluate") + 2]
    if len(arguments) < 3:
        raise SystemExit(__doc__)
    main(Path(arguments[0]), Path(arguments[1]), [Path(name) for name in arguments[2:]], judged)
