"""Slots of the templates about the infrastructure graph."""

import random
from collections.abc import Iterator
from typing import Any

from tools.question_generator.generator import Question, questions
from tools.question_generator.slots import Slots, Value, numbers, places, plain
from tools.question_gold.evaluation import Names

ABSENT = ("IN", "BR", "MX", "NO")
UNKNOWN = ("Cerebras", "Groq", "Huawei", "Siemens", "Toyota", "Vestas", "Zylotronix", "Quallcore Systems")

CATEGORIES = {
    "wfe": "chip equipment makers;wafer-fab equipment companies;semiconductor equipment companies",
    "eda_ip": "EDA companies;EDA and IP companies",
    "foundry": "foundries",
    "memory": "memory makers;memory companies",
    "packaging_test": "packaging and test companies",
    "networking_optics": "networking companies;networking and optics companies",
    "servers_odm": "server makers;server companies",
    "power_cooling": "power and cooling companies",
    "energy": "energy companies",
    "datacenters": "data centre owners;data center operators",
    "hyperscale_cloud": "hyperscalers;hyperscale clouds",
    "neocloud": "neoclouds;GPU clouds",
    "ai_labs": "AI labs",
}
PRODUCTS = (
    "HBM", "DRAM", "NAND flash", "EDA tools", "etch systems", "deposition systems", "silicon wafers", "connectors",
    "optical transceivers", "gas turbines", "AI servers", "uninterruptible power supplies",
    "IC package substrates", "printed circuit boards", "switchgear", "photoresists", "GPU servers",
    "storage systems", "retimers", "wind turbines", "metrology systems", "EUV lithography systems",
)  # fmt: skip
EXCHANGES = {
    "NASDAQ": "NASDAQ;Nasdaq;the NASDAQ",
    "NYSE": "NYSE;the NYSE",
    "Tokyo Stock Exchange": "the Tokyo Stock Exchange",
    "Taiwan Stock Exchange": "the Taiwan Stock Exchange",
}
REGIONS = {
    "Europe": ("Europe", "European", "europäische", "europeas", "européennes", "Europa", "Europe"),
    "Asia": ("Asia", "Asian", "asiatische", "asiáticas", "asiatiques", "Asien", "Asie"),
    "North America": (
        "North America", "North American", "nordamerikanische", "norteamericanas", "nord-américaines", "Nordamerika",
        "Amérique du Nord",
    ),
}  # fmt: skip


def slots(names: Names) -> Slots:
    """The values of every slot."""
    companies = [_company(row) for row in names["companies"]]
    ids = [row["id"] for row in names["companies"]]
    countries = {row["country"] for row in names["companies"]}
    present = places(lambda code, _: f"country({code!r})", sorted(countries))
    absent = places(lambda _code, _name: "set()", ABSENT)
    by_id = dict(zip(ids, companies, strict=True))
    return {
        "company": companies,
        "supplied": [by_id[i] for i in ids if names["suppliers"](i)],
        "supplier": [by_id[i] for i in ids if names["customers"](i)],
        "critical": [by_id[i] for i in ids if names["fails"](i)],
        "listed": [by_id[row["id"]] for row in names["companies"] if row["ticker"]],
        "place": [*present, *(_region(name) for name in REGIONS), *absent],
        "present_place": [*present, *(_region(name) for name in REGIONS)],
        "category": [plain(f"category({key!r})", *text.split(";")) for key, text in CATEGORIES.items()],
        "product": [plain(repr(product), product) for product in PRODUCTS],
        "exchange": [plain(repr(key), *text.split(";")) for key, text in EXCHANGES.items()],
        "unknown": [plain("None", name) for name in UNKNOWN],
        "two_to_seven": numbers(2, 7),
        "two_to_ten": numbers(2, 10),
    }


def _company(row: dict[str, Any]) -> Value:
    """A company by its name, or by an alias that people use for it; numbers and addresses are not."""
    names = [row["name"].split(" (")[0]] * 2
    aliases = [alias for alias in row["aliases"][:2] if not alias.endswith(" maker")]
    names += [alias for alias in aliases if alias.replace(" ", "").replace("-", "").isalpha()]
    return plain(repr(row["id"]), *names)


def _region(name: str) -> Value:
    english, adjective, german, spanish, french, german_name, french_name = REGIONS[name]
    spanish_name = {"Europe": "Europa", "Asia": "Asia"}.get(name, "Norteamérica")
    elided = f"d'{french_name}"
    words = {
        "en": {"": [english], "in": [f"in {english}"], "from": [f"from {english}"], "adj": [adjective]},
        "de": {"in": [f"in {german_name}"], "from": [f"aus {german_name}"], "adj": [german]},
        "es": {"in": [f"en {spanish_name}"], "from": [f"de {spanish_name}"], "adj": [spanish]},
        "fr": {"in": [f"en {french_name}"], "from": [elided], "adj": [french]},
    }
    return Value(f"region({name!r})", words)


def generate(names: Names, chance: random.Random) -> Iterator[Question]:
    """Questions about the graph without end."""
    return questions("infra", slots(names), names, chance)
