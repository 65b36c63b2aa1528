"""Builds the bundled production tables from the raw transcriptions of budget exhibits.

Usage: python tools/build_production.py RAW_FOLDER OUTPUT_FOLDER
RAW_FOLDER holds p1_fy2027_aerospace_lines.csv, quantity_history_fy2011_2021.csv and
p21_production_rates_pb2013_2017.csv; OUTPUT_FOLDER gets p1_lines.csv and historic_rates.csv.
"""

import csv
import re
import sys
from collections import defaultdict
from pathlib import Path

Raw = dict[str, str]
Key = tuple[str, str]

P1_BASIS = (
    "transcribed, not read from the exhibit itself; net amounts; stage labels inferred: FY2025 actual, "
    "FY2026 enacted + reconciliation, FY2027 request"
)
P1_LICENCE = "US government work, public domain"
HISTORIC_BASIS = "historic: quantities FY2012 and FY2015 as reported later as actual; a maximum rate is per year"
HISTORIC_LICENCE = "US government work; compilation CC0"
# The printed title is cut off at 45 characters or says nothing outside the exhibit.
NAMES = {
    ("2032A", "C12000"): "Lower Tier Air and Missile Defense Sensor",
    ("2032A", "C02901"): "High Mobility Artillery Rocket System (HIMARS)",
    ("2032A", "C53101"): "Patriot PAC-3 MSE Missile, Army",
    ("2032A", "C82200"): "Counter Small Unmanned Aerial System Interceptors",
    ("2032A", "C88001"): "Lethal Miniature Aerial Missile System (LMAMS)",
    ("2032A", "C64400"): "Guided MLRS Rocket (GMLRS), Army",
    ("1109N", "3025"): "Guided MLRS Rocket (GMLRS), Marine Corps",
    ("2031A", "AZ3100"): "Common Ground Equipment, Army",
    ("1506N", "0705"): "Common Ground Equipment, Navy",
    ("1506N", "0145"): "F/A-18E/F Super Hornet",
    ("1506N", "0147"): "F-35C (Joint Strike Fighter CV)",
    ("1506N", "0152"): "F-35B (JSF STOVL)",
    ("1506N", "0505"): "F-18E/F and EA-18G Modernization and Sustainment",
    ("1506N", "0605"): "Aircraft Spares and Repair Parts, Navy",
    ("1506N", "0725"): "Other Aircraft Production Charges, Navy",
    ("1507N", "2206"): "AMRAAM, Navy",
    ("1507N", "2209"): "Sidewinder (AIM-9X), Navy",
    ("1507N", "2238"): "Small Diameter Bomb II, Navy",
    ("1507N", "2242"): "Rolling Airframe Missile (RAM)",
    ("1507N", "2247"): "Patriot PAC-3 MSE Missile, Navy",
    ("1507N", "2291"): "Long Range Anti-Ship Missile (LRASM), Navy",
    ("1507N", "2307"): "Evolved Sea Sparrow Missile (ESSM)",
    ("3010F", "000074"): "War Consumables, Air Force",
    ("3010F", "000075"): "Other Aircraft Production Charges, Air Force",
    ("3010F", "ATA000"): "F-35A",
    ("3020F", "LRASM0"): "Long Range Anti-Ship Missile (LRASM), Air Force",
    ("3020F", "M09HAI"): "Sidewinder (AIM-9X), Air Force",
    ("3020F", "MAMRA0"): "AMRAAM, Air Force",
    ("3020F", "SDB002"): "Small Diameter Bomb II, Air Force",
    ("3022F", "GPSSPC"): "Global Positioning (Space)",
}
MOVED_THAAD = "THAAD moves from 0300D MD07 to 2032A C20200 in FY2027: compare the area, not the line"
MOVED_DRONE_DEFENSE = (
    "FY2025 money stands in 2032A C82200 and later money in 0300D 30, a likely move that nobody confirmed: "
    "compare the area, not the line"
)
# Keyed by line; a line with a caution gets no trend of its own.
CAUTIONS = {
    ("0300D", "MD07"): MOVED_THAAD,
    ("2032A", "C20200"): MOVED_THAAD,
    ("2032A", "C82200"): MOVED_DRONE_DEFENSE,
    ("0300D", "30"): MOVED_DRONE_DEFENSE,
    ("1507N", "2327"): "the advance procurement row P-1-390 was not read, so no year's net is complete",
}
# The exhibit before 2018 prints the same item under another name; any other change of title is a change of meaning.
SAME_ITEM = {
    ("1506N", "0145"): "FA-18E/F",
    ("1506N", "0178"): "UH-1Y/AH-1Z",
    ("1506N", "0195"): "E-2D AHE",
    ("1507N", "2242"): "Rolling Airframe Missile (RAM)",
    ("1507N", "2307"): "Evolved Sea Sparrow Missile (ESSM)",
    ("2031A", "A05001"): "Helicopter, Light Utility (LUH)",
    ("3010F", "KC046A"): "KC-46A Tanker",
}
# Other accounts or services buy from the same production line, so one line's quantity says little about its use.
SHARED_PRODUCTION = {
    ("1506N", "0147"),
    ("1506N", "0152"),
    ("1506N", "0416"),
    ("1507N", "2206"),
    ("1507N", "2209"),
    ("3010F", "ATA000"),
    ("3010F", "C130J0"),
    ("3011F", "353620"),
    ("3020F", "M09HAI"),
    ("3020F", "MAMRA0"),
    ("3020F", "PRDTA2"),
}


def main(raw: Path, output: Path) -> None:
    lines = _rows(raw / "p1_fy2027_aerospace_lines.csv")
    quantities = _by_line(_rows(raw / "quantity_history_fy2011_2021.csv"))
    rates = _by_line(_rows(raw / "p21_production_rates_pb2013_2017.csv"))
    _write(output / "p1_lines.csv", [p1_line(line) for line in lines])
    historic = (historic_rate(line, quantities[_key(line)], rates[_key(line)]) for line in lines)
    _write(output / "historic_rates.csv", [line for line in historic if line])


def p1_line(line: Raw) -> Raw:
    """One row of p1_lines.csv; amounts are thousands of dollars."""
    key = _key(line)
    return {
        "account": line["account"],
        "account_title": line["account_title"],
        "code": line["bli_short"],
        "title": line["title"],
        "name": NAMES.get(key, line["title"]),
        "area": line["capability_area"],
        **{f"fy{year}_k": line[f"amount_thousands_fy{year}"] for year in (2025, 2026, 2027)},
        "is_net_complete": "true" if line["net_complete"] == "yes" else "false",
        "caution": CAUTIONS.get(key, ""),
        "basis": P1_BASIS,
        "licence": P1_LICENCE,
        "source": f"Comptroller FY2027 P-1 display, rows {line['source_row_ids']} of {_origin(line)}",
    }


def historic_rate(line: Raw, quantities: list[Raw], rates: list[Raw]) -> Raw | None:
    """One row of historic_rates.csv; None for a line without an actual FY2015 quantity of the same item."""
    meant = {_plain(line["title"]), _plain(SAME_ITEM.get(_key(line), line["title"]))}
    actual = {
        row["fiscal_year"]: row
        for row in quantities
        if row["stage"].endswith("actual") and _plain(row["title"]) in meant
    }
    if "2015" not in actual:
        return None
    budget, rate = _maximum_rate(rates) if _key(line) not in SHARED_PRODUCTION else ("", "")
    return {
        "account": line["account"],
        "code": line["bli_short"],
        "quantity_fy2012": actual["2012"]["quantity"] if "2012" in actual else "",
        "quantity_fy2015": actual["2015"]["quantity"],
        "maximum_rate": rate,
        "rate_exhibit": budget and f"P-21 of PB{budget}",
        "basis": HISTORIC_BASIS,
        "licence": HISTORIC_LICENCE,
        "source": f"P-40 and P-21 exhibits through {_origin(actual['2015'])}",
    }


def _maximum_rate(rates: list[Raw]) -> tuple[str, str]:
    """The budget year and the yearly rate of the newest exhibit that states a single one, else two empty texts.

    Rates labelled monthly are left out: many of them are yearly figures under the wrong label. Several rates in one
    exhibit belong to components, which the transcription does not name.
    """
    for budget in ("2017", "2016"):
        stated = {
            float(row["max_production_rate"])
            for row in rates
            if row["fiscal_year"] == budget and row["rate_units"] == "Yearly"
        }
        if stated:
            return (budget, f"{stated.pop():g}") if len(stated) == 1 else ("", "")
    return "", ""


def _origin(row: Raw) -> str:
    return f"{row['source_repo']}@{row['source_commit'][:7]} {row['source_path']}"


def _key(line: Raw) -> Key:
    return line["account"], line["bli_short"]


def _plain(title: str) -> str:
    return re.sub(r"\W+", " ", title).casefold().strip()


def _by_line(rows: list[Raw]) -> dict[Key, list[Raw]]:
    lines: dict[Key, list[Raw]] = defaultdict(list)
    for row in rows:
        lines[row["account"], row["bli"]].append(row)
    return lines


def _rows(path: Path) -> list[Raw]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _write(path: Path, rows: list[Raw]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
