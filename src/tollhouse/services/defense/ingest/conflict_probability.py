"""How likely a URL's event is the kind its codes say: battles by a trained model, the rest by counted agreement.

Of URLs that GDELT codes as assault or fight (CAMEO 18 to 20) only about one in nine reports armed conflict or
political violence; the others are crime, accidents, sport and celebrities. `conflict_training` makes the model.
"""

from collections.abc import Sequence
from importlib.resources import files

from tollhouse.services.defense.events.event import Category
from tollhouse.services.defense.ingest.category_agreement import confidence
from tollhouse.services.defense.ingest.conflict_features import features
from tollhouse.services.defense.ingest.conflict_model import probability, read_model
from tollhouse.services.defense.ingest.export_row import Row

MODEL = read_model(files("tollhouse.services.defense").joinpath("data", "conflict_model.json").read_bytes())
THRESHOLD: float = MODEL.threshold


def battle_probability(url: str, rows: Sequence[Row]) -> float:
    """0..1, calibrated, that the URL reports armed conflict or political violence; at THRESHOLD it is a battle.

    `rows` are all rows of the URL, at least one of them in CAMEO root 18, 19 or 20 (ValueError otherwise).
    """
    return probability(MODEL.weights, features(url, rows))


def category_confidence(category: Category, rows: Sequence[Row]) -> float:
    """0..1 that an event the codes put into `category` is one: for a battle the model, else labelled agreement.

    `rows` are all rows of one URL.
    """
    if category == "Battles":
        return battle_probability(rows[0].url, rows)
    return confidence(category, rows[0].url, MODEL.agreements)
