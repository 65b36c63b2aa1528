"""Writes data/geocodes.json, where the places named in GDELT event exports lie: `build_geocodes.py EXPORT…`.

Of several places of one name the most told one is taken; a country's own entry goes before a town of its name.
"""

import json
import sys
from collections import Counter
from pathlib import Path

from tollhouse.services.defense.ingest.export_parser import parse_export, unpack_export

TARGET = Path(__file__).parents[1] / "src/tollhouse/services/defense/data/geocodes.json"
CAP_BYTES = 1 << 28
COUNTRY_GEO_TYPE = 1


def build(exports: list[Path]) -> dict[str, tuple[float, float]]:
    """The coordinates by name in lower case."""
    told: dict[str, Counter[tuple[float, float]]] = {}
    for export in exports:
        for row in parse_export(unpack_export(export.read_bytes(), CAP_BYTES)).rows:
            if row.latitude is not None and row.longitude is not None and row.geo_name:
                name = row.geo_name.split(",")[0].strip().casefold()
                weight = 1_000 if row.geo_type == COUNTRY_GEO_TYPE else 1
                told.setdefault(name, Counter())[(row.latitude, row.longitude)] += weight
    return {name: told[name].most_common(1)[0][0] for name in sorted(told)}


if __name__ == "__main__":
    table = build([Path(argument) for argument in sys.argv[1:]])
    lines = ",\n".join(f"{json.dumps(name, ensure_ascii=False)}: {json.dumps(place)}" for name, place in table.items())
    TARGET.write_text("{\n" + lines + "\n}\n", "utf-8")
    print(f"{len(table)} places", file=sys.stderr)
