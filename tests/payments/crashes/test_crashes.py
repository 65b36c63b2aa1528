"""Whatever call a server dies in, what was answered was charged, once. `simulation` plays more seeds."""

import pytest

from tests.payments.crashes.simulation import Simulation

pytestmark = pytest.mark.both_databases

SEEDS = (1, 2)


@pytest.mark.parametrize("seed", SEEDS)
async def test_books_are_right_after_every_crash(seed, tmp_path, database_url):
    simulation = Simulation(seed, tmp_path, database_url.replace("+aiosqlite", ""))
    assert await simulation.run() == []
    assert simulation.crashed_at, "the server never died: this seed proves nothing"


async def test_server_that_forgets_nonces_is_found_out(tmp_path):
    simulation = Simulation(SEEDS[0], tmp_path, "", factory="create_mutant")
    wrong = await simulation.run()
    assert any("for one nonce" in sentence for sentence in wrong), wrong
