import re

import pytest

from tollhouse.questions.grounding import (
    Citations,
    Delta,
    Evidence,
    Exhibit,
    Reference,
    Retract,
    SentenceStream,
    finished,
)

EVENTS = tuple(Reference(f"conflict_{n}", f"Event {n}", f"https://example.org/{n}") for n in range(3))


@pytest.fixture
def evidence():
    shown = Evidence(names=frozenset({"eritrea"}))
    shown.show(Exhibit("f1", "events: battle events in Ethiopia dated 2020-11-15", EVENTS, 27, is_figure=True))
    shown.show(Exhibit("f2", "share", EVENTS[:1], 0.0765, is_figure=True))
    shown.show(Exhibit("f3", "total of FY2026", EVENTS[:1], 72.275611, is_figure=True))
    shown.show(Exhibit("f4", "highest toll of one report", EVENTS[:1], 12, is_deaths=True, is_figure=True))
    shown.show(Exhibit("r5", "Rebels fight 16 divisions, 1,200 flee, dozens killed", EVENTS[2:]))
    return shown


@pytest.mark.parametrize(
    "sentence",
    [
        "[f1] The feeds hold 27 battles.",
        "The feeds hold 27 battles [f1].",
        "[f1] On 15 November 2020 there were 27 battles.",
        "[f2] That is 7.7% of all, or 8 percent.",
        "[f3] The total is 72.28 billion, about 72.",
        "[f4] Up to twelve people were killed.",
        "[r5] One report speaks of 16 divisions and of 1,200 who fled.",
        "[r5] Dozens were killed, one report says.",
        "[f1, f2] Of 27 battles in 24 hours 7.65% are meant.",
    ],
)
def test_sentence_with_numbers_of_what_it_cites_is_supported(evidence, sentence):
    assert evidence.supports(sentence)


@pytest.mark.parametrize(
    "sentence",
    [
        "The feeds hold 27 battles.",
        "[f9] The feeds hold 27 battles.",
        "[f1] [f9] The feeds hold 27 battles.",
        "[f1] The feeds hold 28 battles.",
        "[f2] The feeds hold 27 battles.",
        "[f1] 27 people were killed.",
        "[f1] The feeds hold 27 battles and 5,000 dead.",
        "[f1] Five battles were reported.",
        "[f1] Thousands fled.",
        "[f1] On 14 November 2020 there were 27 battles.",
        "[f1] At 10:30 there were 27 battles.",
        "[f1] 27% of them were battles.",
        "[f2] That is 7.6% of all.",
        "[f3] The total is 72.3 billion or 73 billion.",
        "[f1] There were -27.5 battles.",
        "[f1] Killed:5000, they say.",
        "[f1] Killed-5000 or more.",
        "[f1] 27,5000 battles.",
        "[f1] 27.000.000 battles.",
    ],
)
def test_sentence_with_a_number_from_elsewhere_is_not_supported(evidence, sentence):
    assert not evidence.supports(sentence)


@pytest.mark.parametrize(
    ("sentence", "is_supported"),
    [
        ("[f1] The feeds hold 27 Ethiopian battles.", True),
        ("[f1] Ethiopia's battles number 27 on Sunday, 15 November 2020.", True),
        ("[r5] Rebels fight 16 divisions.", True),
        ("[f1] The feeds hold 27 battles in Eritrea.", False),
        ("[r5] Rebels of General Tsadkan fight 16 divisions.", False),
        ("[r5] Eritrea fights 16 divisions.", False),
    ],
)
def test_sentence_with_a_name_from_elsewhere_is_not_supported(evidence, sentence, is_supported):
    assert evidence.supports(sentence) == is_supported


def test_names_become_one_marker_before_the_full_stop(evidence):
    citations = Citations()
    assert finished("[r5] Rebels fight 16 divisions.", evidence, citations) == "Rebels fight 16 divisions [1]."
    assert finished("[f1] The feeds hold 27 battles.", evidence, citations) == "The feeds hold 27 battles [1-3]."
    assert [reference.id for reference in citations.cited] == ["conflict_2", "conflict_0", "conflict_1"]


def said(evidence: Evidence, text: str, size: int) -> tuple[str, SentenceStream, list[Delta | Retract]]:
    """What a reader has who follows the events, the text coming in pieces of that size."""
    stream, events = SentenceStream(evidence, Citations()), []
    for start in range(0, len(text), size):
        events += stream.take(text[start : start + size])
    events += stream.finish()
    shown = ""
    for event in events:
        shown = shown + event.text if isinstance(event, Delta) else shown[: event.length]
    return shown, stream, events


MIXED = (
    "[f1] The feeds hold 27 battles. [f1] In all 5000 people died there. Uncited words stay in. "
    "The total is 72.28 billion [f3]. [r5] Gen. Abiy met No. 2 of the U.S. Army.\n- [r5] Rebels fight 16 divisions"
)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 20, 1000])
def test_reader_of_the_stream_has_the_same_text_whatever_the_pieces(evidence, size):
    shown, stream, _ = said(evidence, MIXED, size)
    assert shown == stream.text
    assert shown == ("The feeds hold 27 battles [1-3]. The total is 72.28 billion [1]. - Rebels fight 16 divisions [3]")


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_unsupported_number_never_leaves_not_even_for_a_moment(evidence, size):
    _, _, events = said(evidence, MIXED, size)
    assert not any("5000" in event.text for event in events if isinstance(event, Delta))


def test_sentence_that_opens_with_its_source_leaves_word_by_word(evidence):
    stream = SentenceStream(evidence, Citations())
    assert not list(stream.take("[f1]"))
    assert list(stream.take(" The")) == [Delta("The")]
    assert list(stream.take(" feeds hold 2")) == [Delta(" feeds hold")]
    assert list(stream.take("7 bat")) == [Delta(" 27 bat")]
    assert list(stream.take("tles.")) == [Delta("tles")]
    assert list(stream.finish()) == [Delta(" [1-3].")]


def test_sentence_that_cites_at_its_end_begins_with_words_that_claim_nothing_and_waits_with_the_rest(evidence):
    stream = SentenceStream(evidence, Citations())
    assert list(stream.take("The")) == [Delta("The")]
    assert list(stream.take(" feeds")) == [Delta(" feeds")]
    assert not list(stream.take(" hold 27 battles"))
    assert not list(stream.take(" [f1]."))
    assert list(stream.take(" And")) == [Delta(" hold 27 battles [1-3]."), Delta(" And")]


@pytest.mark.parametrize(
    ("said", "left"),
    [
        ("The feeds hold ", "The feeds"),
        ("There were two dead ", "There were"),
        ("In the last 27 hours ", "In the last"),
        ("Rebels fight ", ""),
        ("NOT IN THE FEEDS", ""),
        ("PWNED", ""),
        ("There were no ", "There were"),
        ("- The feeds ", ""),
        ('"The feeds ', ""),
    ],
)
def test_before_it_cites_a_sentence_says_no_number_and_no_word_that_is_not_this_servers_own(evidence, said, left):
    stream = SentenceStream(evidence, Citations())
    for token in re.findall(r"\s*\S+", said):
        assert all(isinstance(event, Delta) for event in stream.take(token))
    assert stream.text == left


def test_beginning_of_a_sentence_that_cites_nothing_is_taken_back(evidence):
    stream = SentenceStream(evidence, Citations())
    assert list(stream.take("There")) == [Delta("There")]
    assert list(stream.take(" were")) == [Delta(" were")]
    assert not list(stream.take(" many more."))
    assert list(stream.finish()) == [Retract(0)]
    assert stream.text == ""


def test_begun_sentence_that_turns_out_wrong_is_taken_back(evidence):
    _, stream, events = said(evidence, "[f1] The feeds hold 27 battles. [f1] They left 99 dead.", 1)
    assert any(isinstance(event, Retract) for event in events)
    assert stream.text == "The feeds hold 27 battles [1-3]."
