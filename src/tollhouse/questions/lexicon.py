"""The phrases that a linker knows, as a tree of words, and what is known of each word of them."""

from collections import Counter, defaultdict
from collections.abc import Callable
from copy import copy
from functools import cache
from typing import Any, Generic, TypeVar

from msgspec import Struct

from tollhouse.questions.normalise import language_data, phrase

LONGEST_PHRASE = 9

E = TypeVar("E")


class Node(Struct, Generic[E], gc=False):
    """A node of the tree of phrases: `entries` are the meanings of the phrase that ends here.

    Most nodes have no children. The garbage collector does not follow nodes, and would else stop all threads.
    """

    children: "dict[str, Node[E]] | None" = None
    entries: tuple[E, ...] = ()

    def child(self, word: str) -> "Node[E] | None":
        return self.children.get(word) if self.children else None

    def copy(self) -> "Node[E]":
        return Node(dict(self.children) if self.children else None, self.entries)


class Lexicon(Generic[E]):
    """A tree of phrases; by word, its languages and whether it may be inflected, and how many names have it.

    `inflected` are the words that may be, by stem, language and row of endings.
    """

    def __init__(self) -> None:
        self.tree: Node[E] = Node()
        self.inflects: dict[str, bool] = {}
        self.inflected: dict[tuple[str, str, int], list[str]] = defaultdict(list)
        self.languages: dict[str, frozenset[str]] = {}
        self.names: Counter[str] = Counter()
        # The languages of words that are declared, without names.
        self._declared: dict[str, frozenset[str]] = {}
        # The nodes that no other lexicon has, None for all.
        self._own: set[int] | None = None

    def copy(self) -> "Lexicon[E]":
        """A lexicon in which names can be removed and added, that are not inflected; it shares what does not change."""
        other = copy(self)
        other.tree, other.names = self.tree.copy(), self.names.copy()
        other.inflects, other.languages = dict(self.inflects), dict(self.languages)
        other._own = {id(other.tree)}  # noqa: SLF001 - the same class
        return other

    def add(self, text: str, entry: E, *, language: str = "", is_name: bool = False, inflects: bool = False) -> None:
        """Add a meaning of a phrase in a language, "" for all; phrases that are too long are left out."""
        node = self.tree
        for word in _words(text):
            if inflects and not self.inflects.get(word):
                for key in stems(word):
                    self.inflected[key].append(word)
            self.inflects[word] = inflects or self.inflects.get(word, False)
            self.languages[word] = _with_language(self.languages.get(word), language)
            if is_name:
                self.names[word] += 1
            else:
                self._declared[word] = self.languages[word]
            node = self._child(node, word)
        if node is not self.tree and entry not in node.entries:
            node.entries = (*node.entries, entry)

    def sort(self, text: str, rank: Callable[[E], Any]) -> None:
        """Put the entries of a phrase that is in the tree in an order."""
        node = self.tree
        for word in _words(text):
            node = self._child(node, word)
        if len(node.entries) > 1:
            node.entries = tuple(sorted(node.entries, key=rank))

    def remove(self, text: str, entry: E) -> None:
        """Remove a name that was added."""
        words, path = _words(text), [self.tree]
        for word in words:
            path.append(self._child(path[-1], word))
            self.names[word] -= 1
            if not self.names[word]:
                del self.names[word]
                if word in self._declared:
                    self.languages[word] = self._declared[word]
                else:
                    del self.languages[word], self.inflects[word]
        path[-1].entries = tuple(each for each in path[-1].entries if each != entry)
        for word, parent, node in reversed(list(zip(words, path, path[1:], strict=False))):
            if parent.children and not (node.entries or node.children):
                del parent.children[word]

    def _child(self, node: Node[E], word: str) -> Node[E]:
        """The child of a node for a word, made where there is none, and copied where other lexicons have it."""
        if node.children is None:
            node.children = {}
        child = node.children.get(word)
        if child is not None and (self._own is None or id(child) in self._own):
            return child
        child = node.children[word] = child.copy() if child else Node()
        if self._own is not None:
            self._own.add(id(child))
        return child


def _words(text: str) -> tuple[str, ...]:
    words = phrase(text)
    return words if len(words) <= LONGEST_PHRASE else ()


@cache
def _with_language(languages: frozenset[str] | None, language: str) -> frozenset[str]:
    return (languages or frozenset()) | {language}


@cache
def stems(word: str) -> tuple[tuple[str, str, int], ...]:
    """The stems of a word, each with the language and the row of endings by which it was matched."""
    result: list[tuple[str, str, int]] = []
    for language, rows in language_data()["inflection"].items():
        for row, endings in enumerate(rows):
            for ending in endings:
                stem = word[: len(word) - len(ending)]
                if word.endswith(ending) and len(stem) >= 3:
                    result.append((stem, language, row))
                    if ending in {"ed", "ing"} and len(stem) > 3 and stem[-1] == stem[-2]:
                        result.append((stem[:-1], language, row))
    return tuple(result)
