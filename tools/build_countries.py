"""Builds the table of countries from the FIPS 10-4 lookup and the corrections below.

Usage: python tools/build_countries.py FIPS_ISO_JSON OUTPUT_JSON
The lookup is an object keyed by FIPS code with `iso2`, `iso3`, `name` and `region`; only its facts are used.
"""

import json
import sys
from pathlib import Path

NAMES = {
    "BQ": "Bonaire, Sint Eustatius and Saba",
    "CC": "Cocos (Keeling) Islands",
    "CW": "Curaçao",
    "FM": "Micronesia",
    "MO": "Macau",
    "NL": "Netherlands",
    "PN": "Pitcairn Islands",
    "PS": "Palestine",
    "RE": "Réunion",
    "BL": "Saint Barthélemy",
    "ST": "São Tomé and Príncipe",
    "TL": "Timor-Leste",
    "VA": "Vatican City",
}
REGIONS = {"PS": "Middle East", "TL": "Asia", "CX": "Asia", "GS": "South America"}
# ISO 3166-1 has them, FIPS 10-4 counts them to another country or splits them.
ADDED = [
    {"iso2": "AX", "iso3": "ALA", "name": "Åland Islands", "region": "Europe"},
    {"iso2": "BQ", "iso3": "BES", "name": "", "region": "North America"},
    {"iso2": "UM", "iso3": "UMI", "name": "United States Minor Outlying Islands", "region": "Oceania"},
]
# No longer in ISO 3166-1: their FIPS codes still appear in files and go to the largest successor.
DISSOLVED = {"AN", "CS"}
MORE_FIPS = {
    "AU": ["AT", "CR"],
    "CW": ["NT"],
    "FR": ["IP"],
    "GB": ["AX", "DX"],
    "PS": ["GZ"],
    "RS": ["RB", "YI"],
    "SJ": ["JN"],
    "TF": ["BS", "EU", "GO", "JU", "TE"],
    "UM": ["FQ", "HQ", "DQ", "JQ", "KQ", "MQ", "BQ", "LQ", "WQ"],
}
# CAMEO actor codes that are not the country's ISO alpha-3.
CAMEO = {
    "COD": ["ZAR"],
    "DEU": ["DDR"],
    "MNE": ["MTN"],
    "PSE": ["GZS", "WSB", "PAL"],
    "ROU": ["ROM"],
    "RUS": ["SUN"],
    "SRB": ["SCG", "YUG"],
    "TLS": ["TMP"],
    "XKX": ["KSV"],
}
ALIASES = {
    "AE": ["UAE", "Emirates"],
    "AG": ["Antigua"],
    "AU": ["Commonwealth of Australia"],
    "BA": ["Bosnia", "Bosnia-Herzegovina", "BiH"],
    "BF": ["Burkina", "Upper Volta"],
    "BN": ["Brunei Darussalam"],
    "BO": ["Plurinational State of Bolivia"],
    "BR": ["Brasil"],
    "BY": ["Byelorussia", "Belorussia"],
    "CC": ["Cocos Islands", "Keeling Islands"],
    "CD": ["DRC", "DR Congo", "Congo-Kinshasa", "Congo Kinshasa", "Democratic Republic of Congo", "Zaire", "D.R. Congo",
           "Congo, Democratic Republic of the", "Congo DR"],
    "CF": ["CAR", "Central Africa"],
    "CG": ["Congo", "Congo-Brazzaville", "Congo Republic", "Republic of Congo"],
    "CH": ["Swiss Confederation"],
    "CI": ["Côte d'Ivoire", "Cote dIvoire"],
    "CN": ["PRC", "People's Republic of China", "Mainland China"],
    "CV": ["Cape Verde"],
    "CY": ["Republic of Cyprus"],
    "CZ": ["Czech Republic"],
    "DE": ["Deutschland", "Federal Republic of Germany"],
    "DO": ["Dominican Rep"],
    "EH": ["Sahrawi Arab Democratic Republic", "Sahrawi Republic"],
    "ES": ["España"],
    "FK": ["Falklands", "Malvinas", "Islas Malvinas"],
    "FM": ["Federated States of Micronesia"],
    "FO": ["Faeroe Islands"],
    "FR": ["French Republic"],
    "GB": ["UK", "Great Britain", "Britain", "England", "Scotland", "Wales", "Northern Ireland",
           "United Kingdom of Great Britain and Northern Ireland"],
    "GM": ["Gambia, The"],
    "GR": ["Hellas", "Hellenic Republic"],
    "HK": ["Hongkong", "Hong Kong SAR"],
    "IE": ["Republic of Ireland", "Eire"],
    "IN": ["Bharat", "Republic of India"],
    "IR": ["Islamic Republic of Iran", "Persia"],
    "IT": ["Italia"],
    "KG": ["Kyrgyz Republic", "Kirghizia"],
    "KN": ["Saint Kitts"],
    "KP": ["DPRK", "Democratic People's Republic of Korea", "Korea North", "Korea, North"],
    "KR": ["ROK", "Republic of Korea", "Korea", "Korea South", "Korea, South"],
    "LA": ["Lao", "Lao People's Democratic Republic", "Lao PDR"],
    "LK": ["Ceylon"],
    "LY": ["Libyan Arab Jamahiriya"],
    "MD": ["Republic of Moldova", "Moldavia"],
    "MK": ["Macedonia", "FYROM", "Republic of North Macedonia"],
    "MM": ["Burma"],
    "MO": ["Macao"],
    "MX": ["México"],
    "NL": ["Holland"],
    "NZ": ["Aotearoa"],
    "PG": ["Papua"],
    "PH": ["Philippine Islands"],
    "PN": ["Pitcairn"],
    "PS": ["Gaza", "Gaza Strip", "West Bank", "Palestinian Territory", "Palestinian Territories", "State of Palestine",
           "Occupied Palestinian Territory", "West Bank and Gaza"],
    "RS": ["Republic of Serbia", "Serbia and Montenegro"],
    "RU": ["Russian Federation"],
    "SA": ["KSA", "Kingdom of Saudi Arabia", "Saudi"],
    "SY": ["Syrian Arab Republic"],
    "SZ": ["Swaziland"],
    "TF": ["French Southern and Antarctic Lands"],
    "TL": ["East Timor"],
    "TR": ["Türkiye", "Turkiye"],
    "TW": ["Republic of China", "Chinese Taipei", "Formosa"],
    "TZ": ["United Republic of Tanzania", "Tanganyika"],
    "US": ["USA", "US", "United States of America", "America", "the States"],
    "VA": ["Holy See", "Vatican"],
    "VC": ["Saint Vincent"],
    "VE": ["Bolivarian Republic of Venezuela"],
    "VG": ["Virgin Islands, British"],
    "VI": ["US Virgin Islands", "Virgin Islands", "United States Virgin Islands"],
    "VN": ["Viet Nam"],
    "XK": ["Republic of Kosovo"],
    "YE": ["Republic of Yemen"],
}  # fmt: skip


def main(lookup: Path, output: Path) -> None:
    """Writes one country per line, ordered by alpha-2, so that a change reads as one line in a diff."""
    entries = json.loads(lookup.read_text(encoding="utf-8"))
    listed = [{**entry, "fips": fips} for fips, entry in entries.items() if entry["iso2"] not in DISSOLVED]
    table = sorted((country(entry) for entry in [*listed, *ADDED]), key=lambda entry: str(entry["alpha2"]))
    lines = ",\n".join(json.dumps(entry, ensure_ascii=False) for entry in table)
    output.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


def country(entry: dict[str, str]) -> dict[str, object]:
    """One line of the table."""
    alpha2, alpha3 = entry["iso2"], entry["iso3"]
    first = [entry["fips"]] if "fips" in entry else []
    return {
        "alpha2": alpha2,
        "alpha3": alpha3,
        "name": NAMES.get(alpha2, entry["name"]),
        "region": REGIONS.get(alpha2, entry["region"]),
        "fips": first + MORE_FIPS.get(alpha2, []),
        "cameo": CAMEO.get(alpha3, []),
        "aliases": ALIASES.get(alpha2, []),
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
