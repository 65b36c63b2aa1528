"""Which words are in the news every day, whatever happens: they say little of what an article is about."""

import tomllib
from collections.abc import Mapping
from importlib.resources import files

from tollhouse.services.defense.stories.tokens import wording

# How many stories a word is taken to be in, beyond those we see, for each headline in a thousand above FEWEST.
STORIES = 4.0
FEWEST = 9


def _everyday() -> Mapping[str, float]:
    path = files("tollhouse.services.defense").joinpath("data", "gazetteers", "everyday.toml")
    shares: dict[str, str] = tomllib.loads(path.read_text("utf-8"))["per_thousand"]
    return {
        term: STORIES * (int(share) - FEWEST)
        for share, words in shares.items()
        for word in words.split()
        for term in wording(word).terms
    }


# A quiet window, or one that has just begun, knows too few stories to tell that everybody names China.
EVERYDAY = _everyday()
