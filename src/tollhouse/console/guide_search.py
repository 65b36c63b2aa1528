"""Full-text search over the sections of the guide: an index in memory, and excerpts with the words of the query."""

import re
from collections.abc import Sequence
from functools import cache, lru_cache

from msgspec import Struct
from tantivy import Document, Filter, Index, Occur, Query, SchemaBuilder, TextAnalyzer, TextAnalyzerBuilder, Tokenizer

from tollhouse.console.guide_result import Excerpt, GuideResult
from tollhouse.console.markdown import Heading, RenderedText
from tollhouse.html_text import one_line

EXCERPT_CHARACTERS = 200
MAX_WORDS = 12
_ANALYZER = "guide"
_WEIGHTS = {"heading": 6.0, "page": 2.5, "text": 1.0}
_WRITER_BYTES = 15_000_000
_WORD = re.compile(r"[^\W_]+")
_HEADING = re.compile(r'<h[1-3][^>]*\sid="([^"]+)"[^>]*>.*?</h[1-3]>', re.DOTALL)
# What a script makes of an empty element is no text of the guide.
_MARKUP = re.compile(r'<a class="anchor".*?</a>', re.DOTALL)


class Section(Struct, frozen=True):
    """A heading of a page with the text up to the next one."""

    page: str
    heading: str
    address: str
    text: str


def sections_of(title: str, path: str, rendered: RenderedText) -> list[Section]:
    names: dict[str, Heading] = {heading.anchor: heading for heading in rendered.headings}
    body = _MARKUP.sub("", rendered.body)
    starts = [match for match in _HEADING.finditer(body) if match[1] in names]
    ends = [match.start() for match in starts[1:]] + [len(body)]
    return [
        Section(title, names[match[1]].text, f"{path}#{match[1]}", one_line(body[match.end() : end]))
        for match, end in zip(starts, ends, strict=True)
    ]


class GuideIndex:
    """An index of sections. Words match in any inflected form; the last word also as the beginning of one."""

    def __init__(self, sections: Sequence[Section]) -> None:
        self._sections = sections
        builder = SchemaBuilder().add_unsigned_field("place", stored=True)
        for field in _WEIGHTS:
            builder = builder.add_text_field(field, tokenizer_name=_ANALYZER)
        self._index = Index(builder.build())
        self._index.register_tokenizer(_ANALYZER, _analyzer())
        writer = self._index.writer(_WRITER_BYTES, 1)
        for place, section in enumerate(sections):
            writer.add_document(Document(place=place, heading=section.heading, page=section.page, text=section.text))
        writer.commit()
        writer.wait_merging_threads()
        self._index.reload()

    def search(self, text: str, limit: int) -> tuple[list[GuideResult], bool]:
        """The best sections with every word of the text, else with any of them; whether they have every word."""
        words = [word.lower() for word in _WORD.findall(text)][:MAX_WORDS]
        if not words:
            return [], True
        queries = [self._word(word, is_last=at == len(words) - 1) for at, word in enumerate(words)]
        searcher = self._index.searcher()
        for occur in (Occur.Must, Occur.Should):
            hits = searcher.search(Query.boolean_query([(occur, query) for query in queries]), limit).hits
            if hits:
                places = [int(searcher.doc(address)["place"][0]) for _, address in hits]
                sections = [self._sections[place] for place in places]
                results = [
                    GuideResult(one.page, one.heading, one.address, excerpt(one.text, words)) for one in sections
                ]
                return results, occur == Occur.Must
        return [], True

    def _word(self, word: str, *, is_last: bool) -> Query:
        schema, stem = self._index.schema, _stem(word)
        parts = [Query.boost_query(Query.term_query(schema, field, stem), weight) for field, weight in _WEIGHTS.items()]
        if is_last:
            parts += [
                Query.boost_query(Query.regex_query(schema, field, f"{word}.*"), weight / 4)
                for field, weight in _WEIGHTS.items()
            ]
        return Query.boolean_query([(Occur.Should, part) for part in parts])


def excerpt(text: str, words: Sequence[str]) -> list[Excerpt]:
    """The part of the text that has most of the words, in pieces; its beginning where it has none."""
    stems = {_stem(word) for word in words}
    matches = [
        match
        for match in _WORD.finditer(text)
        if _stem(match[0].lower()) in stems or match[0].lower().startswith(words[-1])
    ]
    start = max(
        (match.start() for match in matches),
        key=lambda at: len({_stem(m[0].lower()) for m in matches if at <= m.start() < at + EXCERPT_CHARACTERS - 60}),
        default=0,
    )
    first = text.rfind(" ", 0, max(0, start - 40)) + 1
    end = len(text) if len(text) <= first + EXCERPT_CHARACTERS else text.rfind(" ", first, first + EXCERPT_CHARACTERS)
    end = end if end > first else first + EXCERPT_CHARACTERS
    pieces, at = [Excerpt("… ")] if first else [], first
    for match in matches:
        if first <= match.start() and match.end() <= end:
            pieces += [Excerpt(text[at : match.start()]), Excerpt(match[0], is_match=True)]
            at = match.end()
    pieces.append(Excerpt(text[at:end] + (" …" if end < len(text) else "")))
    return [piece for piece in pieces if piece.text]


@cache
def _analyzer() -> TextAnalyzer:
    return TextAnalyzerBuilder(Tokenizer.simple()).filter(Filter.lowercase()).filter(Filter.stemmer("english")).build()


@lru_cache(maxsize=20_000)
def _stem(word: str) -> str:
    return next(iter(_analyzer().analyze(word)), word)
