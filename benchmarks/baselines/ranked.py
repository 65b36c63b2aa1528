"""bm25s with numpy for the filter, the total and the counts: the questions of benchmarks/catalogue.py, timed.

Reads the file it is given and prints one JSON object: `index_s`, the seconds of each question (`taken`), and those of
the processor (`worked`).
"""

import json
import re
import sys
from pathlib import Path
from time import perf_counter, thread_time

import bm25s
import numpy as np

WORD = re.compile(r"\w+")


def main() -> None:
    task = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    items = task["items"]
    started = perf_counter()
    ranker = bm25s.BM25()
    # No weights by field and no stems: the least that it could do.
    texts = [" ".join((item["title"], item["brand"], item["size"], item["description"])) for item in items]
    ranker.index(bm25s.tokenize(texts, stopwords=None, show_progress=False), show_progress=False)
    brands, sizes = codes(items, "brand"), codes(items, "size")
    prices = np.array([item["price"] for item in items])
    hundreds = (prices // 100).astype(np.int64)
    built = perf_counter() - started
    taken: list[float] = []
    worked: list[float] = []
    for text, low, high in [task["questions"][0], *task["questions"]]:
        started, began = perf_counter(), thread_time()
        known = [word for word in WORD.findall(text.lower()) if word in ranker.vocab_dict]
        scores = ranker.get_scores(known) if known else np.zeros(len(items))
        matching = scores > 0
        chosen = np.flatnonzero(matching & (prices >= low) & (prices <= high))
        best = chosen[np.argsort(-scores[chosen], kind="stable")[:20]]
        page = [items[row] for row in best]
        counts = [np.bincount(code[chosen]) for code in (brands, sizes)]
        answer = (len(chosen), page, counts, np.bincount(hundreds[matching]))
        worked.append(thread_time() - began)
        taken.append(perf_counter() - started)
        del answer
        if sum(taken) > task["seconds"]:
            break
    print(json.dumps({"index_s": built, "taken": taken[1:] or taken, "worked": worked[1:] or worked}))


def codes(items: list[dict[str, str]], member: str) -> np.ndarray:
    """Each item's value as a small number."""
    return np.unique([item[member] for item in items], return_inverse=True)[1]


if __name__ == "__main__":
    main()
