"""What single words say beforehand: who is meant by a noun, what describes, what stands between phrases."""

from tollhouse.services.defense.countries import COUNTRIES
from tollhouse.services.defense.entities.gazetteers import table
from tollhouse.services.defense.entities.mention import EntityType


def _words(*texts: str) -> frozenset[str]:
    return frozenset(word for text in texts for word in text.split())


_NOUNS = table("nouns")
_PERSONS = table("persons")
_PLACES = table("places")
_NAME_HEADS = table("organizations")["name_heads"]
_AROUND = _NOUNS["around"]

_TYPES: dict[str, EntityType] = {
    "person": "person",
    "location": "location",
    "aircraft": "platform",
    "weapon": "platform",
    "organization": "organization",
}

# A common noun, in lower case, and what it stands for; of two words where only both together do.
HEADS: dict[str, EntityType] = {
    word: type_ for kind, type_ in _TYPES.items() for word in _NOUNS["heads"][kind].split() if "_" not in word
}
PAIRS: dict[tuple[str, str], EntityType] = {
    (first, last): type_
    for kind, type_ in _TYPES.items()
    for pair in _NOUNS["heads"][kind].split()
    if "_" in pair
    for first, last in [pair.split("_", 1)]
}
OF_HEADS = _words(_AROUND["of_heads"])
ADJECTIVES = _words(_AROUND["adjectives"])
DIRECTIONS = _words(_AROUND["directions"])
DETERMINERS = _words(_AROUND["determiners"])
PREPOSITIONS = _words(_AROUND["prepositions"])
PLACE_PREPOSITIONS = _words(_AROUND["place_prepositions"])
CLOSERS = _words(_AROUND["closers"])
INNER = _words(_AROUND["inner"])
VAGUE = _words(_AROUND["vague"])
UNCOUNTED = _words(_AROUND["uncounted"])

COUNTRY_NAMES = frozenset(name.lower() for country in COUNTRIES for name in (country.name, *country.aliases))
DEMONYMS = _words(_PLACES["demonyms"]["words"])
PEOPLES = _words(_PLACES["demonyms"]["peoples"])
TITLES = _words(_PERSONS["titles"]["words"])
GIVEN = _words(_PERSONS["given"]["names"])
SURNAMES = _words(_PERSONS["given"]["surnames"])
ORGANIZATION_HEADS = _words(_NAME_HEADS["organization"])
LOCATION_HEADS = _words(_NAME_HEADS["location"])
EVENT_HEADS = _words(_NAME_HEADS["event"])

# Capitalised without being names.
CALENDAR = _words(
    "Monday Tuesday Wednesday Thursday Friday Saturday Sunday January February March April May June July August",
    "September October November December Jan. Feb. Mar. Apr. Aug. Sept. Sep. Oct. Nov. Dec.",
    "Jan Feb Mar Apr Aug Sept Oct Nov Dec",
)

PRONOUNS: dict[str, EntityType] = {
    "i": "person", "me": "person", "my": "person", "myself": "person",
    "he": "person", "him": "person", "himself": "person", "she": "person", "her": "person", "herself": "person",
    "we": "organization", "us": "organization", "ourselves": "organization", "they": "organization",
    "here": "location",
}  # fmt: skip
