"""Writes the demonstration's catalogue: 165 mattresses that do not exist, the same ones at every run.

.venv/bin/python tools/make_mattress_catalogue.py
"""

import json
import random
from pathlib import Path
from typing import Any, NamedTuple

from tollhouse.services.mattress.product import DEMO_TAG
from tollhouse.services.mattress.retailers import Retailer, demo_retailers

SEED = 165
TARGET = Path(__file__).parent.parent / "src/tollhouse/services/mattress/data/demo_products.json"
ABOUT = (
    "Demonstration data: every retailer, brand, mattress and price here is made up. Days are counted back from loading."
)
DEMO_LINE = "Demo data: a fictional mattress."

# How many products each retailer has, in the order of retailers.toml: 165 together.
COUNTS = (18, 15, 14, 14, 12, 12, 11, 11, 10, 9, 9, 8, 7, 6, 5, 4)
SIZE_PRICES = {"Single": 0.62, "King Single": 0.72, "Double": 0.86, "Queen": 1.0, "King": 1.22, "Super King": 1.48}
SIZE_WEIGHTS = {"Single": 12, "King Single": 13, "Double": 18, "Queen": 32, "King": 19, "Super King": 6}
LISTED_DAYS_AGO = (210, 150, 120, 95, 60, 30, 12, 5)
PRICE_DAYS_AGO = (180, 110, 75, 45, 24, 16, 9, 3)

# ruff: noqa: E501 - a table reads better in whole lines
# brand, model, material, firmness, cooling, sleep positions, the price of a queen in dollars, what it is known for
MODELS = (
    ("Wattlerest", "Dune", "hybrid", 7, 4, "side back", 1399, "zoned pocket springs under gel foam"),
    ("Wattlerest", "Cove", "memory foam", 5, 2, "side combination", 999, "slow-moving foam that takes the shape of the sleeper"),
    ("Wattlerest", "Ridge", "pocket spring", 8, 3, "back stomach", 1149, "tall springs with a thin, firm comfort layer"),
    ("Southern Drift", "Tasman", "hybrid", 6, 5, "side back combination", 1899, "phase change fabric over pocket springs"),
    ("Southern Drift", "Huon", "latex", 6, 4, "side back", 2299, "Dunlop latex with open pinholes"),
    ("Southern Drift", "Bass", "hybrid", 8, 4, "back stomach", 1649, "a firm quilt over heavy-gauge springs"),
    ("Nullarbor Sleep", "Horizon", "foam", 7, 2, "back stomach combination", 549, "high-density foam in two layers"),
    ("Nullarbor Sleep", "Mirage", "memory foam", 4, 4, "side", 749, "gel memory foam on an airy base"),
    ("Banksia & Down", "Serrata", "latex", 7, 4, "back combination", 2599, "organic cotton and latex, without springs"),
    ("Banksia & Down", "Coccinea", "latex", 4, 4, "side", 2749, "a deep plush latex layer and wool quilting"),
    ("Tidewater", "Ebb", "innerspring", 6, 3, "back stomach", 449, "linked coils and a quilted top"),
    ("Tidewater", "Flow", "pocket spring", 5, 3, "side back", 699, "pocket springs and a pillow top"),
    ("Tidewater", "Surge", "hybrid", 8, 4, "side back", 1099, "reinforced edges and cooling gel"),
    ("Kirra Comfort", "Pointbreak", "hybrid", 7, 5, "side back combination", 1299, "graphite foam that leads heat away"),
    ("Kirra Comfort", "Shorebreak", "memory foam", 6, 3, "side back", 899, "ventilated memory foam"),
    ("Currawong", "Dusk", "pocket spring", 4, 3, "side combination", 1249, "a plush pillow top over micro springs"),
    ("Currawong", "Dawn", "pocket spring", 9, 3, "back stomach", 1349, "an orthopaedic build for firm support"),
    ("Ironbark", "Heartwood", "innerspring", 9, 2, "back stomach", 599, "a thin, hard-wearing and very firm bed"),
    ("Ironbark", "Sapwood", "innerspring", 7, 3, "back combination", 499, "steel coils and a firm quilt"),
    ("Coolabah", "Creek", "hybrid", 5, 5, "side combination", 1749, "a cool-touch cover and phase change gel"),
    ("Coolabah", "Floodplain", "foam", 5, 4, "side back", 649, "open-cell foam that breathes"),
    ("Yarra Cloud", "Cumulus", "memory foam", 3, 3, "side", 1199, "a soft, deep hug"),
    ("Yarra Cloud", "Stratus", "hybrid", 6, 3, "side back stomach combination", 1449, "five zones for every position"),
    ("Bluestone", "Laneway", "foam", 6, 3, "back combination", 399, "a simple foam bed for a first home"),
    ("Bluestone", "Basalt", "pocket spring", 8, 2, "back stomach", 849, "dense felt over pocket springs"),
    ("Pandanus", "Frond", "latex", 5, 5, "side combination", 1999, "graphite latex with a bamboo cover"),
    ("Pandanus", "Root", "latex", 8, 4, "side back stomach", 1459, "firm natural rubber latex in one block"),
    ("Quokka Nights", "Rottnest", "hybrid", 4, 4, "side", 1049, "a soft hybrid with a cooling quilt"),
    ("Quokka Nights", "Bathurst", "foam", 4, 2, "side combination", 299, "a soft foam bed for guest rooms"),
    ("Gidgee", "Outstation", "innerspring", 5, 3, "back combination", 379, "a plain coil bed, made to last"),
    ("Gidgee", "Homestead", "hybrid", 7, 4, "side back", 1219, "pocket springs with a firm, cool top"),
    ("Lyrebird", "Fantail", "memory foam", 7, 4, "side back", 1329, "firm memory foam with a cooling gel swirl"),
)  # fmt: skip

FEELS = {
    2: "extra soft", 3: "soft", 4: "medium soft", 5: "medium", 6: "medium firm", 7: "firm", 8: "very firm", 9: "extra firm",
}  # fmt: skip
BUILDS = {
    "hybrid": "Individually wrapped springs carry the body, and foam above them takes the pressure off shoulders and hips.",
    "memory foam": "Memory foam softens where the body is warm and heavy, so that weight is spread over the whole surface.",
    "latex": "Latex pushes back gently: it supports at once, moves with the sleeper, and keeps its shape for years.",
    "pocket spring": "Every spring sits in a pocket of its own, so that one side of the bed does not feel the other move.",
    "innerspring": "Linked steel coils give an even, springy surface that air moves through freely.",
    "foam": "Layers of foam of different density make a quiet bed that is light to carry and easy to turn.",
}
COOLING_LINES = {
    1: "It holds warmth, which suits cold rooms.",
    2: "It sleeps on the warm side and suits cooler rooms.",
    3: "Its breathable cover keeps an even temperature through most of the year.",
    4: "Hot sleepers get a cooling layer that leads warmth away from the body.",
    5: "It is made for hot sleepers and humid summers: the surface feels cool to the touch and stays cool until morning.",
}
COVERS = (
    "The knitted cover zips off and goes into the washing machine.",
    "A quilted cover of cotton and polyester protects the layers below.",
    "The cover is knitted with bamboo viscose and feels soft against the skin.",
    "Wool in the quilting takes up moisture and gives it back to the room by day.",
)
EDGES = (
    "Reinforced edges let two people use the whole width.",
    "Its edge carries whoever sits down there to lace their shoes.",
    "Handles at the sides make it easy to turn once a season.",
    "A non-slip base keeps it in place on slats.",
)
ARRIVALS = (
    "It comes rolled in a box and is ready after a few hours.",
    "It is delivered flat, and two people carry it to the room.",
    "Delivery to the capital cities is free; elsewhere the checkout says what it costs.",
    "The old mattress is taken away on request.",
)
TRIALS = ((0, 5), (30, 10), (100, 10), (100, 15), (120, 10), (200, 25))
AVAILABILITIES = (("in stock", 80), ("low stock", 7), ("out of stock", 8), ("preorder", 3), ("backorder", 2))


def main() -> None:
    """Write the file, one product a line."""
    chance = random.Random(SEED)  # noqa: S311 - the same catalogue at every run, and nothing depends on luck
    products = [product for retailer, count in zip(demo_retailers(), COUNTS, strict=True)
                for product in _range_of(chance, retailer, count)]  # fmt: skip
    assert len(products) == len({(product["retailer"], product["id"]) for product in products}) == 165
    lines = ",\n".join(json.dumps(product, ensure_ascii=False) for product in products)
    TARGET.write_text(f'{{"about": {json.dumps(ABOUT)}, "products": [\n{lines}\n]}}\n', encoding="utf-8")
    print(f"{len(products)} products of {len(COUNTS)} retailers in {TARGET.name}")


class Shop(NamedTuple):
    """A retailer, and how dear it is beside the others."""

    id: str
    domain: str
    dearness: float


def _range_of(chance: random.Random, retailer: Retailer, count: int) -> list[dict[str, Any]]:
    """What one retailer sells: some models in several sizes, at its own prices."""
    stocked = chance.sample(MODELS, k=min(len(MODELS), max(4, count // 2 + 2)))
    wanted = [(model, size) for model in stocked for size in SIZE_PRICES]
    weights = [SIZE_WEIGHTS[size] for _, size in wanted]
    chosen: set[int] = set()
    while len(chosen) < count:
        chosen.add(chance.choices(range(len(wanted)), weights)[0])
    shop = Shop(retailer.id, retailer.domains[0], chance.uniform(0.93, 1.09))
    return [_product(chance, shop, *wanted[index]) for index in sorted(chosen)]


def _product(chance: random.Random, shop: Shop, model: tuple[Any, ...], size: str) -> dict[str, Any]:
    brand, name, material, firmness, cooling, positions, queen_price, _ = model
    price = _rounded(queen_price * SIZE_PRICES[size] * shop.dearness)
    listed = chance.choice(LISTED_DAYS_AGO)
    trial, warranty = chance.choice(TRIALS)
    slug = f"{_slug(brand)}-{_slug(name)}-{_slug(size)}"
    history = _history(chance, price, listed)
    tags = [FEELS[firmness], *(["cooling"] if cooling >= 4 else []), *([f"{trial} night trial"] if trial else []),
            *(["bed in a box"] if material in ("foam", "memory foam") else []), DEMO_TAG]  # fmt: skip
    return {
        "id": slug,
        "retailer": shop.id,
        "title": f"{brand} {name} {material.title()} Mattress, {size}",
        "brand": brand,
        "size": size,
        "material": material,
        "firmness": firmness,
        "cooling": cooling,
        "sleep_positions": positions.split(),
        "tags": tags,
        "affiliate_url": f"https://{shop.domain}/products/{slug}",
        "availability": chance.choices(*zip(*AVAILABILITIES, strict=True))[0],
        "description": _description(chance, model, size, (trial, warranty)),
        "prices": history,
    }


def _description(chance: random.Random, model: tuple[Any, ...], size: str, promise: tuple[int, int]) -> str:
    brand, name, material, firmness, cooling, positions, _, known_for = model
    sleepers = positions.split()
    told = " and ".join([", ".join(sleepers[:-1]), sleepers[-1]] if len(sleepers) > 1 else sleepers)
    trial, warranty = promise
    sentences = [
        f"The {brand} {name} is a {FEELS[firmness]} {material} mattress in {size} size, known for {known_for}.",
        BUILDS[material],
        f"On a scale of ten its firmness is {firmness}, which suits {told} sleepers.",
        COOLING_LINES[cooling],
        *chance.sample((chance.choice(COVERS), chance.choice(EDGES), chance.choice(ARRIVALS)), k=3),
        f"Try it at home for {trial} nights." if trial else "It can be tried in the showroom.",
        f"The maker answers for the core for {warranty} years.",
        DEMO_LINE,
    ]
    return " ".join(sentences)


def _history(chance: random.Random, price: float, listed: int) -> list[dict[str, float]]:
    """What it has cost since it was listed: the list price stands, sales come and go."""
    days = [
        listed,
        *sorted(
            chance.sample([day for day in PRICE_DAYS_AGO if day < listed], k=_changes(chance, listed)), reverse=True
        ),
    ]
    prices: list[dict[str, float]] = []
    for day in days:
        share = (
            chance.choice((0, 0, 0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4))
            if day != listed
            else chance.choice((0, 0, 0.1))
        )
        sale = price if not share else _rounded(price * (1 - share))
        if not prices or prices[-1]["sale_price"] != sale:
            prices.append({"days_ago": day, "price": price, "sale_price": sale})
    return prices


def _changes(chance: random.Random, listed: int) -> int:
    possible = sum(day < listed for day in PRICE_DAYS_AGO)
    return min(possible, chance.choice((0, 1, 1, 2, 3, 4)))


def _rounded(price: float) -> float:
    """As shops write prices: 1,299 and not 1,303.27."""
    return float(max(99, round(price / 10) * 10 - 1))


def _slug(text: str) -> str:
    return "-".join("".join(letter if letter.isalnum() else " " for letter in text.lower()).split())


if __name__ == "__main__":
    main()
