"""Right answers about the mattress catalogue, worked out from its products; the conventions are in docs/quality.md."""

import re
from collections.abc import Callable, Iterable
from typing import Any

from tools.question_gold import evaluation

Product = dict[str, Any]

# Width and length in centimetres of the standard Australian sizes.
CENTIMETRES: dict[str, tuple[int, int]] = {
    "Single": (92, 188),
    "King Single": (107, 203),
    "Double": (138, 188),
    "Queen": (153, 203),
    "King": (183, 203),
    "Super King": (204, 204),
}
TRIAL = re.compile(r"(\d+) night trial")


def current(p: Product) -> float:
    """What the shopper pays today: the sale price where it is lower than the list price."""
    sale = p.get("sale_price")
    return float(min(p["price"], sale)) if sale is not None else float(p["price"])


def off(p: Product) -> float:
    """The share 0..1 taken off the list price."""
    return 1 - current(p) / float(p["price"])


def on_sale(p: Product) -> bool:
    return current(p) < float(p["price"])


def in_stock(p: Product) -> bool:
    """Can be bought and sent today: the last few pieces count, a preorder or a backorder does not."""
    return p["availability"] in ("in stock", "low stock")


def size(p: Product) -> str:
    return str(p["size"])


def width(p: Product) -> int:
    return CENTIMETRES[size(p)][0]


def length(p: Product) -> int:
    return CENTIMETRES[size(p)][1]


def material(p: Product) -> str:
    return str(p["material"])


def foam(p: Product) -> bool:
    return material(p) in ("foam", "memory foam")


def spring(p: Product) -> bool:
    return material(p) in ("pocket spring", "innerspring")


def brand(p: Product) -> str:
    return str(p["brand"])


def firmness(p: Product) -> int:
    return int(p["firmness"])


def cooling(p: Product) -> int:
    return int(p["cooling"])


def positions(p: Product) -> list[str]:
    return list(p["sleep_positions"])


def tags(p: Product) -> list[str]:
    return list(p["tags"])


def trial(p: Product) -> int:
    """Nights of trial that a tag states; 0 where none does."""
    return max((int(m[1]) for t in tags(p) if (m := TRIAL.fullmatch(t))), default=0)


def title(p: Product) -> str:
    return str(p["title"]).lower()


def text(p: Product) -> str:
    """Title, description and tags in lower case."""
    return " ".join([p["title"], p.get("description") or "", *tags(p)]).lower()


def lowest(rows: Iterable[Product], key: Callable[[Product], float]) -> list[str]:
    """Ids of the rows with the smallest value, ties included."""
    found = list(rows)
    least = min((key(p) for p in found), default=None)
    return [p["id"] for p in found if key(p) == least]


def highest(rows: Iterable[Product], key: Callable[[Product], float]) -> list[str]:
    """Ids of the rows with the largest value, ties included."""
    return lowest(rows, lambda p: -key(p))


def names(rows: dict[str, Any]) -> evaluation.Names:
    """Everything that a gold expression may name."""
    shops = {r["id"]: str(r["name"]) for r in rows["retailers"]}

    def retailer(p: Product) -> str:
        return shops[p["retailer"]]

    helpers = (
        current, off, on_sale, in_stock, size, width, length, material, foam, spring, brand, retailer,
        firmness, cooling, positions, tags, trial, title, text, lowest, highest,
    )  # fmt: skip
    return {"products": rows["products"], **{f.__name__: f for f in helpers}}


def fetch_rows(base_url: str, key: str | None = None) -> dict[str, Any]:
    """The whole catalogue of the service at `base_url`, in two requests.

    Raises ValueError if the products do not fit on one page.
    """
    catalogue = evaluation.fetch(f"{base_url}/api/products?limit=250", key)
    if catalogue["count"] != catalogue["total"]:
        raise ValueError(f"{catalogue['count']} of {catalogue['total']} products in one page")
    return {"products": catalogue["products"], "retailers": evaluation.fetch(f"{base_url}/api/retailers")["retailers"]}
