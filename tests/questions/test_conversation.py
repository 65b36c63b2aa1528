import pytest
from msgspec import Struct

from tollhouse import clock
from tollhouse.admission.context import open_context
from tollhouse.config.settings import Settings
from tollhouse.questions.conversation import TTL_SECONDS, Conversations, open_conversations

pytestmark = pytest.mark.both_databases


class Memory(Struct, frozen=True, array_like=True):
    """What these tests remember."""

    said: tuple[str, ...]


class Other(Struct, frozen=True, array_like=True):
    """What another version of the server remembered."""

    number: int


@pytest.fixture
def conversations():
    return Conversations(b"s" * 32, Memory)


def test_id_leads_its_caller_back(conversations):
    identity = conversations.encode(Memory(("one", "two")), "key_1")
    assert conversations.decode(identity, "key_1") == Memory(("one", "two"))


def test_id_opens_nothing_for_another_caller(conversations):
    assert conversations.decode(conversations.encode(Memory(("one",)), "key_1"), "key_2") is None


def test_no_two_ids_are_alike(conversations):
    assert conversations.encode(Memory(()), "key_1") != conversations.encode(Memory(()), "key_1")


@pytest.mark.parametrize("text", ["", "conv_", "conv_AAAA", "x" * 6000, "conv_é", "conv_" + "A" * 100])
def test_made_up_id_opens_nothing(conversations, text):
    assert conversations.decode(text, "key_1") is None


def test_every_changed_letter_is_noticed(conversations):
    identity = conversations.encode(Memory(("one",)), "key_1")
    for place in range(5, len(identity) - 1):
        changed = identity[:place] + ("A" if identity[place] != "A" else "B") + identity[place + 1 :]
        assert conversations.decode(changed, "key_1") is None


def test_conversation_is_over_after_an_hour(conversations, monkeypatch):
    identity = conversations.encode(Memory(("one",)), "key_1")
    now = clock.seconds()
    monkeypatch.setattr(clock, "seconds", lambda: now + TTL_SECONDS + 2)
    assert conversations.decode(identity, "key_1") is None


def test_id_of_an_older_version_is_forgotten(conversations):
    identity = Conversations(b"s" * 32, Other).encode(Other(1), "key_1")
    assert conversations.decode(identity, "key_1") is None


def test_id_stays_small(conversations):
    assert len(conversations.encode(Memory(("word " * 100,) * 6), "key_1")) < 1_000


async def test_every_server_on_a_database_goes_on_from_the_same_id(database_url, tmp_path):
    settings = Settings(data_dir=str(tmp_path), database_url=database_url.replace("+aiosqlite", "", 1))
    async with open_context(settings) as context:
        one = await open_conversations(context.database, "a-conversation", Memory)
        identity = one.encode(Memory(("hello",)), "key_1")
    async with open_context(settings) as context:
        two = await open_conversations(context.database, "a-conversation", Memory)
        other = await open_conversations(context.database, "another-conversation", Memory)
    assert two.decode(identity, "key_1") == Memory(("hello",))
    assert other.decode(identity, "key_1") is None
