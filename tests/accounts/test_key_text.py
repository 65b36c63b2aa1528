import random
import re

from hypothesis import given
from hypothesis import strategies as st

from tollhouse.accounts.keys import is_well_formed, key_hash, new_key

ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def test_key_is_its_prefix_and_base62():
    for _ in range(1_000):
        key = new_key()
        assert re.fullmatch(r"th_live_[0-9A-Za-z]{33}", key)
        assert is_well_formed(key)


def test_keys_do_not_repeat_and_use_the_whole_alphabet():
    keys = {new_key() for _ in range(5_000)}
    assert len(keys) == 5_000
    assert {character for key in keys for character in key[9:35]} == set(ALPHABET)


def test_no_typing_error_is_accepted():
    chance = random.Random(7)
    for _ in range(300):
        key = new_key()
        for _ in range(200):
            place = chance.randrange(8, len(key))
            wrong = key[:place] + chance.choice(ALPHABET) + key[place + 1 :]
            assert is_well_formed(wrong) == (wrong == key)


def test_neighbours_swapped_are_not_accepted():
    for _ in range(300):
        key = new_key()
        for place in range(8, len(key) - 1):
            wrong = key[:place] + key[place + 1] + key[place] + key[place + 2 :]
            assert is_well_formed(wrong) == (wrong == key)


def test_length_and_prefix_must_be_right():
    key = new_key()
    for wrong in ("", "th_live_", key[:-1], key + "0", key[1:], f" {key}", f"{key}\n", key.replace("live", "test"),
                  key.upper(), key[8:]):  # fmt: skip
        assert not is_well_formed(wrong)


@given(st.text())
def test_no_text_breaks_it(text):
    assert not is_well_formed(text)
    assert not is_well_formed("th_live_" + text) or len(text) == 33


@given(st.text(min_size=33, max_size=33))
def test_characters_outside_the_alphabet_are_not_accepted(text):
    if not set(text) <= set(ALPHABET):
        assert not is_well_formed("th_live_" + text)


def test_hash_depends_on_key_and_secret():
    key, other = new_key(), new_key()
    assert key_hash(key, b"a") == key_hash(key, b"a")
    assert len({key_hash(key, b"a"), key_hash(key, b"b"), key_hash(other, b"a")}) == 3
    assert len(key_hash(key, b"a")) == 32
