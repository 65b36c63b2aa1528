"""Fit the static text vectors of tollhouse/vectors.py to the vectors of a sentence model.

Usage: python tools/build_text_vectors.py MODEL_DIR TITLES.txt...
MODEL_DIR holds the `vocab.txt` and `model.safetensors` of sentence-transformers/all-MiniLM-L6-v2 (Apache-2.0), which
run here in numpy; TITLES.txt are news titles, one per line. Rewrites src/tollhouse/data/text_vectors.npz. The same
input gives the same file, up to rounding in the linear algebra of the machine.

The titles of the file that is there, none of which is kept or can be read back from it:
- 29,999 of the first 74,399 lines of A Million News Headlines, drawn at random (ABC, 2003 and 2004; Rohit Kulkarni,
  CC0, doi.org/10.7910/DVN/SYBGZL),
- 13,406 headlines of the News Category Dataset (HuffPost, 2018 and 2022; Rishabh Misra, CC BY 4.0,
  doi.org/10.13140/RG.2.2.20331.18729).
Other titles of the same kind give vectors of the same kind. None is from a file or a day on which the vectors are
evaluated.

Method: each vocabulary entry's vector is the model's for that entry alone, centred and weighted by its rarity (smooth
inverse frequency, Arora et al., "A simple but tough-to-beat baseline for sentence embeddings", ICLR 2017). Ridge
regression then moves them, from there, so that the sum of a title's vectors over the root of their number is the
model's vector of the title. The leading DIMENSIONS are kept, as one byte each.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tollhouse.vectors import WordPieces, text_vectors, without_accents

OUTPUT = Path(__file__).parents[1] / "src/tollhouse/data/text_vectors.npz"
DIMENSIONS = 256
# Smoothing of inverse frequency, strength of the pull to the starting vectors, steps of conjugate gradients.
SMOOTHING, RIDGE, STEPS = 1e-3, 0.3, 25
LONGEST = 64
TOKENS_AT_ONCE = 8_192
ROWS_AT_ONCE = 16_384
HEADS = 12

Matrix = NDArray[np.float32]


class SentenceModel:
    """MiniLM-L6: six layers of a BERT encoder, and the mean of its last layer's token vectors, of unit length."""

    def __init__(self, folder: Path) -> None:
        self.vocabulary = (folder / "vocab.txt").read_text(encoding="utf-8").splitlines()
        self.number = {piece: number for number, piece in enumerate(self.vocabulary)}
        self.splitter = WordPieces(self.number)
        self.weights = dict(_read_safetensors(folder / "model.safetensors"))

    def tokens(self, text: str) -> list[int]:
        """The numbers of a text's tokens, punctuation included, between [CLS] and [SEP]."""
        number = self.number
        spaced = "".join(char if char.isalnum() else f" {char} " for char in without_accents(text.lower()))
        pieces: list[int] = []
        for word in spaced.split():
            pieces += self.splitter.split(word) or (number.get(word, number["[UNK]"]),)
        return [number["[CLS]"], *pieces[: LONGEST - 2], number["[SEP]"]]

    def embed(self, tokens: Sequence[Sequence[int]]) -> Matrix:
        """A row of unit length per list of tokens; lists of one length are computed together."""
        answer = np.zeros((len(tokens), 384), dtype=np.float32)
        by_length: dict[int, list[int]] = {}
        for place, row in enumerate(tokens):
            by_length.setdefault(len(row), []).append(place)
        done = 0
        for length, places in sorted(by_length.items()):
            step = max(1, TOKENS_AT_ONCE // length)
            for start in range(0, len(places), step):
                chunk = places[start : start + step]
                answer[chunk] = self._encode(np.array([tokens[place] for place in chunk]))
                done += len(chunk)
                print(f"\r{done} of {len(tokens)}", end="", file=sys.stderr)
        print(file=sys.stderr)
        return answer

    def _encode(self, tokens: NDArray[np.int64]) -> Matrix:
        w, (count, length) = self.weights, tokens.shape
        hidden = (
            w["embeddings.word_embeddings.weight"][tokens]
            + w["embeddings.position_embeddings.weight"][:length]
            + w["embeddings.token_type_embeddings.weight"][0]
        )
        hidden = self._normalised(hidden.reshape(count * length, -1), "embeddings.LayerNorm")
        for layer in range(6):
            name = f"encoder.layer.{layer}"
            query, key, value = (
                self._linear(hidden, f"{name}.attention.self.{part}")
                .reshape(count, length, HEADS, -1)
                .transpose(0, 2, 1, 3)
                for part in ("query", "key", "value")
            )
            scores = query @ key.transpose(0, 1, 3, 2) / np.float32(np.sqrt(query.shape[-1]))
            scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
            mixed = (scores / scores.sum(axis=-1, keepdims=True)) @ value
            mixed = mixed.transpose(0, 2, 1, 3).reshape(count * length, -1)
            attended = self._linear(mixed, f"{name}.attention.output.dense")
            hidden = self._normalised(attended + hidden, f"{name}.attention.output.LayerNorm")
            inner = _gelu(self._linear(hidden, f"{name}.intermediate.dense"))
            hidden = self._normalised(self._linear(inner, f"{name}.output.dense") + hidden, f"{name}.output.LayerNorm")
        return unit_length(hidden.reshape(count, length, -1).mean(axis=1))

    def _linear(self, values: Matrix, name: str) -> Matrix:
        return values @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]

    def _normalised(self, values: Matrix, name: str) -> Matrix:
        centred = values - values.mean(axis=-1, keepdims=True)
        deviation = np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + np.float32(1e-12))
        return centred / deviation * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]


def _gelu(values: Matrix) -> Matrix:
    """The values times the normal distribution's share below x, by formula 7.1.26 of Abramowitz and Stegun."""
    size = np.abs(values) * np.float32(np.sqrt(0.5))
    t = 1 / (1 + np.float32(0.3275911) * size)
    tail = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    share = np.float32(0.5) * tail * np.exp(-size * size)
    return values * np.where(values > 0, 1 - share, share)


def _read_safetensors(path: Path) -> Iterator[tuple[str, Matrix]]:
    """The file's arrays of 32-bit floats: eight bytes of length, a JSON header, then the numbers."""
    raw = path.read_bytes()
    begin = 8 + int.from_bytes(raw[:8], "little")
    for name, entry in json.loads(raw[8:begin]).items():
        if entry.get("dtype") == "F32":
            start, end = entry["data_offsets"]
            yield name, np.frombuffer(raw[begin + start : begin + end], "<f4").reshape(entry["shape"])


def unit_length(values: Matrix) -> Matrix:
    return values / np.maximum(np.linalg.norm(values, axis=-1, keepdims=True), np.float32(1e-12))


class Sums:
    """The linear map from the vectors of the pieces in texts (`used`, in ascending order) to those of the texts.

    A text's vector is the sum of its pieces' over the root of their number.
    """

    def __init__(self, texts: Sequence[Sequence[int]]) -> None:
        lengths = np.array([len(text) for text in texts])
        self.text = np.repeat(np.arange(len(texts)), lengths)
        self.used, self.piece = np.unique([piece for text in texts for piece in text], return_inverse=True)
        self.factor = (1 / np.sqrt(lengths)).astype(np.float32)
        self.starts = np.cumsum(lengths) - lengths
        self.by_piece = np.argsort(self.piece, kind="stable")
        self.piece_starts = np.unique(self.piece[self.by_piece], return_index=True)[1]

    def forward(self, vectors: Matrix) -> Matrix:
        return _sums(vectors, self.piece, self.starts) * self.factor[:, None]

    def back(self, values: Matrix) -> Matrix:
        return _sums(values * self.factor[:, None], self.text[self.by_piece], self.piece_starts)


def _sums(values: Matrix, index: NDArray[np.int64], starts: NDArray[np.int64]) -> Matrix:
    """The sums of the values at `index[start:next start]`, some thousand at a time."""
    answer = np.empty((len(starts), values.shape[1]), dtype=np.float32)
    ends = np.append(starts[1:], len(index))
    first = 0
    while first < len(starts):
        last = max(first + 1, int(np.searchsorted(ends, starts[first] + ROWS_AT_ONCE)))
        chosen = values[index[starts[first] : ends[last - 1]]]
        answer[first:last] = np.add.reduceat(chosen, starts[first:last] - starts[first], axis=0)
        first = last
    return answer


def fit(sums: Sums, start: Matrix, target: Matrix) -> Matrix:
    """Ridge regression towards `start` by conjugate gradients, all columns at once."""
    moved = np.zeros_like(start)
    residual = sums.back(target - sums.forward(start))
    direction, length = residual.copy(), (residual * residual).sum(axis=0)
    for _ in range(STEPS):
        image = sums.back(sums.forward(direction)) + np.float32(RIDGE) * direction
        step = length / np.maximum((direction * image).sum(axis=0), 1e-12)
        moved += step * direction
        residual -= step * image
        before, length = length, (residual * residual).sum(axis=0)
        direction = residual + length / np.maximum(before, 1e-12) * direction
    return start + moved


def main(folder: Path, files: Sequence[Path]) -> None:
    model = SentenceModel(folder)
    read = (line.strip() for file in files for line in file.read_text(encoding="utf-8").splitlines())
    titles = [title for title in dict.fromkeys(read) if model.splitter.split(title)]
    # Entries that a text without punctuation can contain.
    kept = [n for n, piece in enumerate(model.vocabulary) if piece.removeprefix("##").isalnum()]
    alone = model.embed([[model.number["[CLS]"], number, model.number["[SEP]"]] for number in kept])
    target = model.embed([model.tokens(title) for title in titles])
    write([model.vocabulary[number] for number in kept], vectors(model, kept, titles, alone, target))
    fitted, model_rows = text_vectors().embed(titles[:2_000]), target[:2_000] - target.mean(axis=0)
    both = np.corrcoef((fitted @ fitted.T).ravel(), (unit_length(model_rows) @ unit_length(model_rows).T).ravel())
    print(f"correlation of the similarities of 2,000 of the titles with the model's: {both[0, 1]:.3f}")


def vectors(model: SentenceModel, kept: Sequence[int], titles: Sequence[str], alone: Matrix, target: Matrix) -> Matrix:
    """The fitted vectors of the vocabulary's entries `kept`, from the model's of entries alone and of titles."""
    place = {number: n for n, number in enumerate(kept)}
    split = [[place[piece] for piece in model.splitter.split(title)] for title in titles]
    counts = np.bincount([piece for pieces in split for piece in pieces], minlength=len(kept))
    rarity = SMOOTHING / (SMOOTHING + counts / counts.sum())
    start = (alone - alone.mean(axis=0)) * rarity[:, None].astype(np.float32)
    sums = Sums(split)
    start[sums.used] = fit(sums, start[sums.used], target - target.mean(axis=0))
    _, directions = np.linalg.eigh(start.T @ start)
    return start @ directions[:, ::-1][:, :DIMENSIONS]


def write(pieces: Sequence[str], rows: Matrix) -> None:
    """One byte per number: each row's largest is 127.

    The model knows English: of other scripts it has little but letters, which would make all their texts alike.
    """
    english = [number for number, piece in enumerate(pieces) if piece.isascii()]
    pieces, rows = [pieces[number] for number in english], rows[english]
    scales = (np.abs(rows).max(axis=1) / 127).astype(np.float16)
    scales[scales == 0] = 1
    whole = np.clip(np.rint(rows / scales[:, None].astype(np.float32)), -127, 127).astype(np.int8)
    OUTPUT.parent.mkdir(exist_ok=True)
    text = np.frombuffer("\n".join(pieces).encode(), np.uint8)
    np.savez_compressed(OUTPUT, pieces=text, rows=whole, scales=scales)
    print(f"{len(pieces)} word pieces, {OUTPUT.stat().st_size} bytes")


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]])
