"""A second opinion on names: those that GDELT's Knowledge Graph found in the same article."""

from collections.abc import Iterable

from msgspec import Struct

from tollhouse.services.defense.entities.mention import EntityType, Mention
from tollhouse.services.defense.entities.merge import bare_name


class GkgName(Struct, frozen=True):
    """A name that GKG found in an article."""

    name: str
    type: EntityType


class Vote(Struct, frozen=True):
    """A name in an article. `voters` is 2 where the tagger and GKG both found it, else 1."""

    name: str
    type: EntityType
    voters: int


def combine(ours: Iterable[Mention], theirs: Iterable[GkgName]) -> list[Vote]:
    """Each name once: all of ours, and of theirs the people and bodies of two words or more that we did not find.

    Where both found a name, the type is ours: GKG takes parties for people and battalions for both.
    """
    votes = {name.casefold(): Vote(name, mention.type, 1) for mention in ours if (name := bare_name(mention))}
    for found in theirs:
        key = found.name.casefold()
        if key in votes:
            votes[key] = Vote(votes[key].name, votes[key].type, 2)
        elif found.type != "location" and " " in found.name:
            votes[key] = Vote(found.name, found.type, 1)
    return list(votes.values())
