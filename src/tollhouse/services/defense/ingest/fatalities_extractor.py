"""Extract the number of people killed from a headline that reports violence."""

import re

LARGEST_TOLL = 50_000

_WORDS = {
    "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10,
    "eleven": 11, "twelve": 12, "thirteen": 13, "fourteen": 14, "fifteen": 15, "sixteen": 16, "seventeen": 17,
    "eighteen": 18, "nineteen": 19, "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70,
    "eighty": 80, "ninety": 90, "half a dozen": 6, "a dozen": 12, "dozen": 12, "two dozen": 24, "three dozen": 36,
    "a hundred": 100, "one hundred": 100, "two hundred": 200, "three hundred": 300,
}  # fmt: skip
_NUMBER = (
    r"(?P<{0}>(?<![\w$€£#.,/-])(?:[0-9]{{1,3}}(?:,[0-9]{{3}})+|[0-9]{{1,5}}|"
    + "|".join(sorted(_WORDS, key=len, reverse=True))
    + r")(?![\w%/-]|[.,][0-9]))"
)
_ABOUT = r"(?:(?:at least|more than|as many as|up to|over|nearly|almost|about|around|some|another|all|its|his)\s+)?"
# Words between a number and "killed" that show the number counts something other than victims.
_NOT_VICTIMS = (
    r"(?!(?:injured|wounded|hurt|arrested|detained|held|missing|rescued|displaced|ago|after|before|when|since|until|in"
    r"|on|at|by|as|for|from|who|that|with|years?|yrs?|months?|weeks?|days?|hours?|minutes?|hrs?|miles?|km|times|people's"
    r"|percent|pc|million|billion|trillion|thousand|hundred|am|pm|th|st|nd|rd|to|of|suspects?|gunm[ae]n|attackers?|old"
    r"|star|more than|year-old|man|charged|accused|convicted|jailed|sentenced|not|no|leaders?'s?)\b)"
)
_VICTIMS = rf"(?:\s+{_NOT_VICTIMS}[^\W\d][\w'\u2019-]*){{0,4}}(?:,\s+including[^,]{{1,40}})?,?"
_DEAD = r"\s+(?:(?:were|are|have been|has been|was|being|reported|feared|shot|found|confirmed|left)\s+){0,2}"
_TOLL_RISES = re.compile(
    r"\b(?:death )?toll\b(?:\s+(?!(?:injured|wounded)\b)[^\W\d][\w'\u2019-]*){0,5}?\s+" + _ABOUT + _NUMBER.format("n"),
    re.IGNORECASE,
)
_KILLED = re.compile(
    _NUMBER.format("n")
    + _VICTIMS
    + _DEAD
    + r"(?:killed|dead|slain|massacred|beheaded|executed|die|died|dies|perish)\b",
    re.IGNORECASE,
)
_KILLS = re.compile(
    r"\b(?:kill|kills|killing|killed|claims|claimed|slay|slays|massacres?)\s+"
    + _ABOUT
    + _NUMBER.format("n")
    + r"(?!\s+(?:years?|months?|weeks?|days?|hours?|minutes?|miles?|km|times)\b)"
    r"(?!\s+(?:percent|pc|million|billion|trillion|years?-old|yr|star|goals?|points?|runs?|jobs?|birds?|sheep|cows?|cattle"
    r"|dogs?|cats?|horses?|elephants?|whales?|animals?|pigs?|chickens?|bees|trees|of the|am|pm)\b)",
    re.IGNORECASE,
)
_LEAVES = re.compile(
    r"\b(?:leaves?|leaving|left)\s+"
    + _ABOUT
    + _NUMBER.format("n")
    + r"(?:\s+(?!injured|wounded|hurt)[^\W\d]\w*){0,2}\s+dead\b",
    re.IGNORECASE,
)
_RANK = re.compile(r"(?:\bno\.?|\bnumber|\bnot|\bday|\btop|\bat|\baged?|#)\s*$", re.IGNORECASE)
# Deaths with other causes or at other times: a disaster, an anniversary, a trial, a year.
_OTHER_DEATHS = re.compile(
    r"\b(?:covid|coronavirus|corona|pandemic|virus|vaccines?|flu|influenza|cholera|ebola|malaria|measles|disease|epidemic"
    r"|typhoon|hurricane|cyclone|storm|tornado|earthquake|quake|tsunami|floods?|flooding|landslides?|mudslides?|avalanche"
    r"|heatwave|volcano|lightning|wildfires?|crash|crashes|crashed|collision|derail\w*|capsiz\w*|drown\w*|shipwreck"
    r"|stampede|collapse[sd]?|overdose\w*|poison\w*|drunk|traffic|road accident|accident|house fire|hospital fire"
    r"|on this day|anniversar\w+|years? (?:ago|after|later|on|since)|decades? (?:ago|after|later)|commemorat\w+"
    r"|remember\w*|memorial|marks|sentenced|convicted|jailed|trial|pleads?|inquest|movie|film|book|game|season)\b"
    r"|\b(?:in|of|since|from) (?:1[0-9]{3}|20[0-9]{2})\b",
    re.IGNORECASE,
)
# Every pattern contains one of these; a plain substring check is much faster than the patterns.
_DEATHS = ("kill", "dead", "die", "toll", "slain", "massacr", "slay", "claim", "behead", "execut", "perish")


def extract_fatalities(title: str) -> int | None:
    """The number of people killed, or None if the headline gives none, or gives one for something other than violence.

    Vague words such as "dozens" do not count as numbers. Figures for an anniversary, a trial or a disaster are ignored.
    """
    lower = title.lower()
    if not any(mark in lower for mark in _DEATHS) or _OTHER_DEATHS.search(title):
        return None
    for pattern in (_TOLL_RISES, _LEAVES, _KILLS, _KILLED):
        for match in pattern.finditer(title):
            toll = _toll(title, match)
            if toll is not None:
                return toll
    return None


def _toll(title: str, match: re.Match[str]) -> int | None:
    text = match["n"].lower()
    before = title[: match.start("n")]
    if _RANK.search(before):
        return None
    number = _WORDS.get(text) or int(text.replace(",", "") if text[0].isdecimal() else 0)
    # A bare four-digit number in the range of years is a year; "more than 2000" is not.
    is_year = text.isdecimal() and 1900 <= number <= 2100 and not before.rstrip().endswith(("than", "least"))
    return None if is_year or not 0 < number <= LARGEST_TOLL else number
