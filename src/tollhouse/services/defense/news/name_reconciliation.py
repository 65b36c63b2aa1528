"""Which of the names that GDELT's Knowledge Graph found in a page join those we found in its title."""

from collections.abc import Iterable, Iterator, Sequence

from tollhouse.services.defense.entities.ensemble_vote import GkgName, combine
from tollhouse.services.defense.entities.mention import EntityType, Mention


def known_to_gkg(ours: Iterable[Mention], persons: Sequence[str], organizations: Sequence[str]) -> Iterator[Mention]:
    """All of ours, then each of theirs that we did not find; theirs have no place in our text."""
    found = list(ours)
    yield from found
    theirs = [*_listed(persons, "person"), *_listed(organizations, "organization")]
    known = {mention.text.casefold() for mention in found}
    for vote in combine(found, theirs):
        if vote.voters == 1 and vote.name.casefold() not in known:
            yield Mention(vote.name, vote.type, 0, 0)


def _listed(names: Sequence[str], kind: EntityType) -> Iterator[GkgName]:
    return (GkgName(name, kind) for name in names)
