"""The background work on its own: servers that do none, and workers that take turns."""

import pytest

from tests.fakes.gdelt import fake_gdelt, recent_slots
from tests.journeys.server import Program, poll


@pytest.fixture
def gdelt():
    with fake_gdelt() as provider:
        yield provider


@pytest.fixture
def start_worker(tmp_path):
    started = []

    def start(server, **settings: object) -> Program:
        home = tmp_path / f"worker{len(started)}"
        started.append(Program(["worker", "--data-dir", server.data_dir], home, settings))
        return started[-1]

    yield start
    for program in started:
        program.kill()


def leads(worker):
    return "job started" in worker.told()


def test_work_is_done_by_one_worker_and_taken_over_when_it_dies(start_server, start_worker, gdelt):
    settings = {"recorded": "false", "gdelt_url": gdelt.url, "gdelt_poll_seconds": 0.2}
    slots = recent_slots(2)
    gdelt.publish(slots[0], 0)
    server = start_server("--no-worker", is_recorded=False, **settings)
    with server.client(server.new_key()["api_key"]) as client:
        assert client.get("/feeds/events").status_code == 502
    assert gdelt.requests == []

    workers = [start_worker(server, **settings)]
    poll(lambda: leads(workers[0]), 30)
    workers.append(start_worker(server, **settings))
    first = poll(lambda: server.health()["feeds"]["events"] if server.health()["feeds"]["events"]["events"] else None)
    assert first["source"] == "live"
    assert not leads(workers[1])

    workers[0].kill()
    gdelt.publish(slots[1], 1)
    poll(lambda: leads(workers[1]), 30)
    poll(lambda: server.health()["feeds"]["events"]["events"] > first["events"], 30)
    assert gdelt.downloads() == slots
    assert workers[1].stop() == 0
    server.stop()
