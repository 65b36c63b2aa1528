import asyncio
from pathlib import Path

import pytest
from sqlalchemy import inspect, text

from tollhouse import clock
from tollhouse.accounts.keys import new_key, open_key_ring
from tollhouse.errors import Problem

pytestmark = pytest.mark.both_databases

STRANGER = "198.51.100.7"


@pytest.fixture
async def ring(database):
    return await open_key_ring(database, "")


async def refused(work, code="invalid-key"):
    with pytest.raises(Problem) as raised:
        await work
    assert raised.value.code == code
    return raised.value


async def test_key_is_known_by_its_text(ring):
    made = await ring.create("ada@example.org", "pro", "journal", per_day=5, per_minute=3)
    holder = await ring.holder(made.text)
    assert holder == made.holder
    assert (holder.tier, holder.label, holder.per_day, holder.per_minute) == ("pro", "journal", 5, 3)
    assert holder.key_id.startswith("key_")
    assert (await ring.create("ada@example.org", "free")).holder.key_id != holder.key_id


async def test_unknown_and_mistyped_keys_are_refused(ring, database):
    made = await ring.create("ada@example.org", "free")
    stranger = (await (await open_key_ring(database, "another server's secret")).create("eve@example.org", "free")).text
    for text_ in ("", "th_live_", made.text[:-1], made.text.swapcase(), stranger):
        await refused(ring.holder(text_))


async def test_rotated_key_keeps_everything_but_its_text(ring):
    made = await ring.create("ada@example.org", "pro", "journal", per_day=5)
    await ring.holder(made.text)
    rotated = await ring.rotate(made.holder.key_id, made.text)
    assert rotated.holder == made.holder
    assert rotated.text != made.text
    assert await ring.holder(rotated.text) == made.holder
    await refused(ring.holder(made.text))


async def test_ten_rotations_at_once_give_one_key_that_works(ring, database):
    rings = [ring, await open_key_ring(database, "")]
    made = await ring.create("ada@example.org", "free")
    rotations = (rings[number % 2].rotate(made.holder.key_id, made.text) for number in range(10))
    outcomes = await asyncio.gather(*rotations, return_exceptions=True)
    issued = [outcome for outcome in outcomes if not isinstance(outcome, BaseException)]
    assert [outcome.code for outcome in outcomes if isinstance(outcome, Problem)] == ["key-rotated"] * 9
    assert [await ring.holder(key.text) for key in issued] == [made.holder]


async def test_revoked_key_is_dead_for_good(ring):
    made = await ring.create("ada@example.org", "free")
    await ring.holder(made.text)
    assert await ring.revoke(made.holder.key_id) is True
    await refused(ring.holder(made.text))
    assert await ring.revoke(made.holder.key_id) is False
    assert await ring.set_tier(made.holder.key_id, "pro") is False
    await refused(ring.rotate(made.holder.key_id, made.text))


async def test_what_was_never_made_cannot_be_changed(ring):
    assert await ring.revoke("key_0000000000000000") is False
    assert await ring.set_tier("key_0000000000000000", "pro") is False
    await refused(ring.rotate("key_0000000000000000", new_key()))


async def test_tier_moves_at_once(ring):
    made = await ring.create("ada@example.org", "free")
    assert (await ring.holder(made.text)).tier == "free"
    assert await ring.set_tier(made.holder.key_id, "enterprise") is True
    assert (await ring.holder(made.text)).tier == "enterprise"


async def test_one_client_address_gets_twenty_keys_for_an_email_however_many_ask_at_once(ring, database):
    other = await open_key_ring(database, "")
    spellings = ["ada@example.org", "Ada@Example.org", " ADA@EXAMPLE.ORG "]

    async def ask(number) -> bool:
        try:
            await (ring, other)[number % 2].create(spellings[number % 3], "free", client_address=STRANGER)
        except Problem as problem:
            if problem.code != "too-many-keys":
                raise
            return False
        return True

    assert sum(await asyncio.gather(*(ask(number) for number in range(30)))) == 20
    await ring.create("eve@example.org", "free", client_address=STRANGER)
    listed = [key for key in await ring.listed() if key["email"] == "ada@example.org"]
    assert len(listed) == 20
    assert await ring.revoke(listed[0]["key_id"])
    await ring.create("ada@example.org", "free", client_address=STRANGER)
    await refused(ring.create("ada@example.org", "free", client_address=STRANGER), "too-many-keys")


async def test_stranger_cannot_use_up_the_keys_of_an_email_address(ring):
    for _ in range(20):
        await ring.create("ada@example.org", "free", client_address=STRANGER)
    for owner in ("203.0.113.9", "2001:db8:1:2::/64", None):
        assert (await ring.create("ada@example.org", "free", client_address=owner)).holder.tier == "free"


async def test_client_addresses_are_not_stored(ring, database, tmp_path):
    await ring.create("ada@example.org", "free", client_address=STRANGER)
    assert STRANGER.encode() not in every_file(tmp_path) + await every_row(database)


async def test_keys_still_work_after_a_restart(ring, database):
    made = await ring.create("ada@example.org", "free")
    assert await (await open_key_ring(database, "")).holder(made.text) == made.holder


async def test_rings_opened_at_once_share_one_secret(database):
    rings = await asyncio.gather(*(open_key_ring(database, "") for _ in range(5)))
    made = await rings[0].create("ada@example.org", "free")
    for ring in rings:
        assert await ring.holder(made.text) == made.holder


async def test_issued_key_is_found_nowhere_in_the_store(ring, database, tmp_path):
    made = [await ring.create(f"ada{number}@example.org", "free") for number in range(5)]
    made.append(await ring.rotate(made[0].holder.key_id, made[0].text))
    for key in made[1:]:
        await ring.holder(key.text)
    stored = every_file(tmp_path) + await every_row(database)
    assert b"ada1@example.org" in stored
    for key in made:
        assert key.text.encode() not in stored
        assert key.text.removeprefix("th_live_").encode() not in stored


def every_file(folder):
    return b"".join(path.read_bytes() for path in Path(folder).rglob("*") if path.is_file())


async def every_row(database):
    found = []
    async with database.reading() as connection:
        for name in await connection.run_sync(lambda plain: inspect(plain).get_table_names()):
            rows = await connection.execute(text(f'SELECT * FROM "{name}"'))  # noqa: S608 - the database's own names
            found += [value for row in rows for value in row]
    return b"\n".join(value if isinstance(value, bytes) else str(value).encode() for value in found)


async def test_listed_keys_are_oldest_first_and_without_text(ring, monkeypatch):
    start = clock.now()
    for number in range(3):
        moment = start.replace(year=2020 + number)
        monkeypatch.setattr(clock, "now", lambda moment=moment: moment)
        await ring.create(f"ada{number}@example.org", "free")
    listed = await ring.listed()
    assert [key["email"] for key in listed] == [f"ada{number}@example.org" for number in range(3)]
    assert set(listed[0]) == {"key_id", "email", "tier", "label", "created_at", "revoked_at"}
