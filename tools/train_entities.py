"""Train the name tagger on WNUT-17 and generated sentences.

Usage: PYTHONPATH=src python -m tools.train_entities WNUT17_TRAIN_CONLL
Rewrites src/tollhouse/services/defense/data/entity_model.crfsuite and its provenance; same input, same file.
"""

import sys
from pathlib import Path
from random import Random

import msgspec
import pycrfsuite

from tollhouse.services.defense.entities.extractor import features
from tollhouse.services.defense.entities.lexicon import find_known
from tollhouse.services.defense.evaluate_entities import read_conll
from tools.entity_sentences import Sentence, sentences

SEED = 20261121
TRAINED_ON = "2026-11-21"
DATA = Path(__file__).parents[1] / "src/tollhouse/services/defense/data"
PARAMETERS = {"c1": 0.15, "c2": 0.02, "max_iterations": 70, "feature.minfreq": 2}
_WNUT = {"person": "person", "location": "location", "group": "organization", "corporation": "organization"}
_OWN = "entity_sentences.txt, entity_slots.toml, gazetteers"
_CITATION = "Derczynski, Nichols, van Erp, Limsopatham: Results of the WNUT2017 Shared Task, W-NUT 2017"
# A share of sentences is trained without known names, for names that no list contains.
_BLIND = 0.35


def main(wnut: Path) -> None:
    random = Random(SEED)  # noqa: S311 (a seed, so that the same model comes out)
    own = list(sentences(Path(__file__).parent / "data" / "entity_sentences.txt", random))
    tweets = [[(word, _wnut_label(label)) for word, label in sentence] for sentence in read_conll(wnut)]
    trainer = pycrfsuite.Trainer(verbose=False)
    trainer.set_params(PARAMETERS)
    for sentence in own + tweets:
        trainer.append(_seen(sentence, random), [label for _, label in sentence])
    trainer.train(str(DATA / "entity_model.crfsuite"))
    _write_provenance(len(own), len(tweets))


def _seen(sentence: Sentence, random: Random) -> list[list[str]]:
    words = [word for word, _ in sentence]
    known = find_known(words, [word.lower() for word in words])
    blind = random.random() < _BLIND
    return features(words, [] if blind else known)


def _wnut_label(label: str) -> str:
    type_ = _WNUT.get(label[2:])
    return f"{label[:2]}{type_}" if type_ else "O"


def _write_provenance(own: int, tweets: int) -> None:
    provenance = {
        "made_by": "tools/train_entities.py",
        "date": TRAINED_ON,
        "seed": SEED,
        "parameters": PARAMETERS,
        "sources": [
            {"name": _OWN, "sentences": own, "licence": "Apache-2.0, written for this project"},
            {"name": "WNUT-17 training set", "sentences": tweets, "licence": "CC BY 4.0", "citation": _CITATION},
        ],
    }
    packed = msgspec.json.format(msgspec.json.encode(provenance), indent=2)
    (DATA / "entity_model.json").write_bytes(packed + b"\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
