"""Reported articles."""

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from tollhouse.services.defense.article import Article, article_id
from tollhouse.services.defense.entities.ensemble_vote import GkgName, combine
from tollhouse.services.defense.entities.extractor import extract_names
from tollhouse.services.defense.entities.mention import EntityType, Mention
from tollhouse.services.defense.entities.merge import identify
from tollhouse.services.defense.events.event import EventRecord
from tollhouse.services.defense.ingest.gkg_parser import GkgRecord
from tollhouse.services.defense.publishers import find_publisher


class Place(Struct, frozen=True, gc=False):
    """Decimal degrees."""

    name: str
    latitude: float
    longitude: float


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


class NamedEntity(Struct, frozen=True, gc=False):
    """Somebody or something an article names: `text` is how, `name` what our lists or the article call it in full."""

    id: str
    name: str
    type: EntityType
    text: str


class ReportedArticle(Struct, frozen=True, gc=False):
    """A composed title (`has_headline` False) says nothing of its own: it names nobody and is like no other.

    `event_id` is the event that the same page is the source of, None where it is none's.
    """

    article: Article
    names: tuple[NamedEntity, ...]
    places: tuple[Place, ...] = ()
    event_id: str | None = None
    has_headline: bool = True

    def linked_to(self, event_id: str) -> "ReportedArticle":
        """The same page as the source of an event."""
        return replace(self, event_id=event_id)


def report_article(article: Article) -> ReportedArticle:
    """The article with the names found in its title and text."""
    return ReportedArticle(article, _named(extract_names(_text(article))))


def report_gkg_page(record: GkgRecord) -> ReportedArticle:
    """A page of the Knowledge Graph, the names in its title and those that GDELT found in its text."""
    places = tuple(Place(it.name.split(",")[0].strip(), it.latitude, it.longitude) for it in record.places)
    names = known_to_gkg(extract_names(_text(record.article)), record.persons, record.organizations)
    return ReportedArticle(record.article, _named(names), places)


def report_event_page(record: EventRecord) -> ReportedArticle:
    """The page that an event was read from, its title made from its address where nobody gave us one."""
    publisher = find_publisher(record.url)
    article = Article(
        id=article_id(record.url),
        url=record.url,
        title=record.title,
        publisher=publisher.name,
        family=publisher.family,
        published=record.first_reported_at,
        source="gdelt",
    )
    found = report_article(article) if record.has_headline else ReportedArticle(article, (), has_headline=False)
    return found.linked_to(record.id)


def merged_reports(known: ReportedArticle, later: ReportedArticle) -> ReportedArticle:
    """What both say of one page: the later words, and everything only one of them knows."""
    first, second = known.article, later.article
    better = second if _rank(second) >= _rank(first) else first
    article = replace(
        better,
        published=first.published,
        text=second.text or first.text,
        tone=second.tone if second.tone is not None else first.tone,
    )
    names = later.names if better is second else known.names
    return ReportedArticle(
        article,
        names,
        later.places or known.places,
        later.event_id or known.event_id,
        has_headline=known.has_headline or later.has_headline,
    )


def _rank(article: Article) -> int:
    """A feed's own headline before the page's title, that before one made of the address."""
    return ("gdelt", "gkg", "feed").index(article.source)


def _text(article: Article) -> str:
    return f"{article.title}.\n{article.text}" if article.text else article.title


def _named(mentions: Iterable[Mention]) -> tuple[NamedEntity, ...]:
    found = list(mentions)
    return tuple(
        NamedEntity(identity.id, identity.name, identity.type, mention.text)
        for mention, identity in zip(found, identify(found), strict=True)
        if identity is not None
    )
