from tollhouse.services.defense.entities.ensemble_vote import GkgName, Vote, combine
from tollhouse.services.defense.entities.mention import Mention


def test_a_name_both_found_has_two_voters_and_our_type():
    ours = [Mention("President Petro Poroshenko", "person", 0, 26)]
    theirs = [GkgName("Petro Poroshenko", "organization"), GkgName("Viktor Orban", "person")]
    assert combine(ours, theirs) == [Vote("Petro Poroshenko", "person", 2), Vote("Viktor Orban", "person", 1)]


def test_a_single_word_that_only_gkg_found_is_no_name():
    assert combine([], [GkgName("Party", "organization"), GkgName("Turks", "location")]) == []
