from tollhouse.services.defense.news.entity import MOST_NAMES, related, weight


def test_names_that_always_meet_are_closest():
    close = related([{"a", "b"}, {"a", "b"}, {"a", "c"}, {"c"}], limit=5)
    assert [other.id for other in close["a"]] == ["b", "c"]
    assert close["a"][0].weight > close["a"][1].weight


def test_a_relation_weighs_the_same_from_both_sides():
    close = related([{"a", "b"}, {"a"}], limit=5)
    assert close["a"][0].weight == close["b"][0].weight


def test_one_chance_meeting_weighs_half():
    assert weight(1, 1, 1) == 0.5
    assert weight(9, 9, 9) == 0.9


def test_a_round_up_relates_nobody():
    assert not related([{str(number) for number in range(MOST_NAMES + 1)}], limit=5)


def test_a_name_alone_has_no_relations():
    assert related([["a", "a"]], limit=5) == {"a": []}


def test_only_the_closest_are_kept():
    assert len(related([{"a", "b"}, {"a", "c"}, {"a", "d"}], limit=2)["a"]) == 2
