"""Who speaks on each told page, copies of one text under one family; kept from edition to edition."""

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from tollhouse.services.defense.news.reported_article import Reported
from tollhouse.services.defense.wire_copies import headline_key, with_copies_marked


class Copies:
    """Only pages that came, changed or left, and those under the same headline, are compared anew."""

    def __init__(self) -> None:
        self._given: dict[str, Reported] = {}
        self._marked: dict[str, Reported] = {}
        self._alike: dict[str, set[str]] = {}

    def marked(self, wanted: Mapping[str, Reported]) -> list[Reported]:
        """The wanted reports, by article id, in their order, copies of one agency's text under its family."""
        gone = [self._given.pop(identity) for identity in self._given.keys() - wanted.keys()]
        came = [report for identity, report in wanted.items() if self._given.get(identity) is not report]
        replaced = [self._given[report.article.id] for report in came if report.article.id in self._given]
        touched = {self._left(report) for report in (*gone, *replaced)} | {self._came(report) for report in came}
        for key in touched:
            self._mark(self._alike.get(key, ()))
        return [self._marked[identity] for identity in wanted]

    def _left(self, report: Reported) -> str:
        key, identity = headline_key(report.article.title), report.article.id
        del self._marked[identity]
        if key:
            self._alike[key].discard(identity)
            if not self._alike[key]:
                del self._alike[key]
        return key

    def _came(self, report: Reported) -> str:
        key, identity = headline_key(report.article.title), report.article.id
        self._given[identity] = self._marked[identity] = report
        if key:
            self._alike.setdefault(key, set()).add(identity)
        return key

    def _mark(self, alike: Iterable[str]) -> None:
        for article in with_copies_marked(self._given[identity].article for identity in sorted(alike)):
            report = self._given[article.id]
            is_its_own = article.family == report.article.family
            self._marked[article.id] = report if is_its_own else replace(report, article=article)
