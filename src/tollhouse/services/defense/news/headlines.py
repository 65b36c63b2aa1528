"""The headlines that publishers themselves gave to pages, as far as we have been told."""

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from tollhouse.services.defense import revisions
from tollhouse.services.defense.article import ArticleSource
from tollhouse.services.defense.events.event import TitleBasis
from tollhouse.services.defense.news import store
from tollhouse.services.defense.store import ARTICLES_FEED
from tollhouse.storage.database import Transaction

Headline = tuple[str, TitleBasis]

_BASIS: dict[ArticleSource, TitleBasis] = {"feed": "feed", "gkg": "page"}


class _Titled(Struct, frozen=True):
    title: str
    source: ArticleSource


class _Stored(Struct, frozen=True):
    """Of a stored article, its headline alone."""

    article: _Titled


async def headlines(connection: Transaction, pool: str, pages: Sequence[str]) -> dict[str, Headline]:
    """The headlines that are stored of these articles, those made of addresses left out."""
    if not await revisions.revision(connection, ARTICLES_FEED):
        return {}
    found = await store.articles_of(connection, pool, pages)
    told = {identity: msgspec.json.decode(packed, type=_Stored).article for identity, packed in found.items()}
    return {identity: (it.title, _BASIS[it.source]) for identity, it in told.items() if it.source in _BASIS}
