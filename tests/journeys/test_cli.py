"""The operator's commands."""

import json
import re
import subprocess

import pytest

from tests.fakes.gdelt import export
from tests.journeys.server import free_port, poll, run


@pytest.fixture(scope="module")
def data(server):
    """The folder of a running server: commands work beside it."""
    return server.data_dir


@pytest.fixture
def tollhouse(data, tmp_path):
    def command(*arguments: object, **settings: object) -> subprocess.CompletedProcess[str]:
        return run(*arguments, "--data-dir", data, cwd=tmp_path, **settings)

    return command


def created(tollhouse, *options: object):
    made = tollhouse("keys", "create", "--email", "op@example.org", *options)
    assert made.returncode == 0, made.stderr
    return json.loads(made.stdout)


@pytest.mark.parametrize(
    ("tier", "limits"),
    [("free", (100, 10)), ("pro", (10_000, 100)), ("enterprise", (None, 1_000))],
)
def test_operator_gives_any_tier_and_the_server_knows_it_at_once(tollhouse, server, tier, limits):
    key = created(tollhouse, "--tier", tier, "--label", "by hand")
    assert key["tier"] == tier
    assert key["label"] == "by hand"
    assert (key["limits"]["requests_per_day"], key["limits"]["requests_per_minute"]) == limits
    with server.client(key["api_key"]) as client:
        assert client.get("/feeds/events").headers["x-credits-tier"] == tier


def test_key_may_have_limits_of_its_own(tollhouse, server):
    key = created(tollhouse, "--tier", "pro", "--per-minute", 3, "--per-day", 5)
    assert key["limits"] == {"requests_per_day": 5, "requests_per_minute": 3}
    with server.client(key["api_key"]) as client:
        assert [client.get("/feeds/events").status_code for _ in range(4)] == [200, 200, 200, 429]


@pytest.mark.parametrize("option", ["--per-minute", "--per-day"])
def test_limit_of_nothing_is_refused(tollhouse, option):
    refused = tollhouse("keys", "create", "--email", "op@example.org", option, 0)
    assert refused.returncode == 1
    assert option in refused.stderr


def test_listed_keys_show_everything_but_their_text(tollhouse):
    key = created(tollhouse, "--label", "listed")
    listed = tollhouse("keys", "list")
    assert key["api_key"] not in listed.stdout
    assert "th_live_" not in listed.stdout
    (line,) = [line for line in map(json.loads, listed.stdout.splitlines()) if line["key_id"] == key["key_id"]]
    assert line["email"] == "op@example.org"
    assert line["label"] == "listed"
    assert line["revoked_at"] is None


def test_revoked_key_is_dead_within_two_seconds(tollhouse, server):
    key = created(tollhouse)
    with server.client(key["api_key"]) as client:
        assert client.get("/api/keys/verify").status_code == 200
        revoked = tollhouse("keys", "revoke", key["key_id"])
        assert json.loads(revoked.stdout) == {"revoked": True, "key_id": key["key_id"]}
        poll(lambda: client.get("/api/keys/verify").status_code == 401, 2)
    again = tollhouse("keys", "revoke", key["key_id"])
    assert again.returncode == 1
    assert key["key_id"] in again.stderr


def test_tier_is_moved(tollhouse, server):
    key = created(tollhouse)
    moved = tollhouse("keys", "set-tier", key["key_id"], "pro")
    assert json.loads(moved.stdout) == {"key_id": key["key_id"], "tier": "pro"}
    with server.client(key["api_key"]) as client:
        status = client.get("/api/keys/verify").json()
    assert status["tier"] == "pro"
    assert status["limits"]["requests_per_day"] == 10_000
    assert tollhouse("keys", "set-tier", "key_0000000000000000", "pro").returncode == 1
    assert tollhouse("keys", "set-tier", key["key_id"], "gold").returncode != 0


@pytest.fixture
def export_file(tmp_path):
    file = tmp_path / "20201115111500.export.CSV.zip"
    file.write_bytes(export("20201115111500", 0))
    return file


def test_file_taken_in_twice_changes_nothing(tmp_path, export_file):
    def ingest() -> dict[str, object]:
        done = run("ingest", "gdelt", export_file, "--data-dir", tmp_path / "fresh", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    first, second = ingest(), ingest()
    assert first["slot"] == second["slot"] == "20201115111500"
    assert first["rows"] == second["rows"] > 0
    assert first["reports"] > 0
    assert (first["was_known"], second["was_known"]) == (False, True)
    assert second["reports"] == 0


def test_file_taken_in_reaches_the_running_server(tollhouse, server, export_file):
    before = server.health()["feeds"]["events"]
    assert tollhouse("ingest", "gdelt", export_file).returncode == 0
    after = poll(lambda: [f for f in [server.health()["feeds"]["events"]] if f["as_of"] != before["as_of"]])[0]
    assert after["as_of"] == "2020-11-15T11:15:00Z"


@pytest.mark.parametrize(
    "raw", [b"", b"garbage\n", b"PK\x03\x04garbage", b"\x00" * 5_000, b"a\tb\tc\n" * 100, b'{"json": true}']
)
def test_garbage_is_refused_and_lands_nowhere(tmp_path, export_file, raw):
    garbage = tmp_path / "garbage.csv"
    garbage.write_bytes(raw)
    done = run("ingest", "gdelt", garbage, export_file, "--data-dir", tmp_path / "fresh", cwd=tmp_path)
    assert done.returncode == 3
    assert "garbage.csv" in done.stderr
    assert "Traceback" not in done.stderr
    (report,) = map(json.loads, done.stdout.splitlines())
    assert report["slot"] == "20201115111500"


def test_file_that_is_not_there_is_refused(tollhouse):
    done = tollhouse("ingest", "gdelt", "nowhere.csv")
    assert done.returncode == 3
    assert "nowhere.csv" in done.stderr


def test_operator_gets_a_login_link_for_the_public_url_or_the_one_named(tollhouse):
    link = r"/operator/login\?code=[\w-]{16,}\n"
    public = tollhouse("operator", public_url="https://api.example.org")
    assert re.fullmatch(r"https://api\.example\.org" + link, public.stdout)
    named = tollhouse("operator", "--url", "http://127.0.0.1:9/")
    assert re.fullmatch(r"http://127\.0\.0\.1:9" + link, named.stdout)


def test_short_operator_token_stops_the_start_with_one_line(tollhouse):
    done = tollhouse("serve", operator_token="nineteen-characters")
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("tollhouse: setting operator_token: must be at least 20 characters")
    assert "nineteen" not in line


def test_settings_are_shown_without_their_secrets(tollhouse):
    secrets = {"admin_token": "hunter2-token-of-the-operator", "key_hash_secret": "hunter2-hash"}
    urls = {"redis_url": "redis://me:hunter2@localhost/1", "database_url": "postgresql://me:hunter2@localhost/x"}
    shown = tollhouse("settings", **secrets, **urls)
    assert shown.returncode == 0, shown.stderr
    assert "hunter2" not in shown.stdout
    settings = json.loads(shown.stdout)
    assert settings["operator_token"] == "***"
    assert settings["redis_url"] == "redis://me:***@localhost/1"
    assert settings["retention_days"] == 8


@pytest.mark.parametrize(
    ("setting", "value"),
    [("colour", "red"), ("log_level", "loud"), ("trusted_proxies", "evil"), ("database_url", "mysql://x")],
)
def test_wrong_setting_is_one_line_that_names_it(tmp_path, setting, value):
    is_one_line(run("settings", cwd=tmp_path, **{setting: value}), setting)


@pytest.mark.parametrize("command", [["serve", "--port", "1"], ["keys", "list"], ["worker"], ["ingest", "gdelt", "x"]])
def test_every_command_stops_at_a_wrong_setting(tmp_path, command):
    is_one_line(run(*command, cwd=tmp_path, workers="many"), "workers")


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ("[prices.studio.exportAll]\nrequests = 2", "prices.studio.exportAll: there is no such operation"),
        ("[prices.studio.exportAll]\nrequest_eur = 2", "prices.studio.exportAll: Object contains unknown field"),
        ("[prices.studios.exportAll]\nrequests = 2", "prices.studios: there is no such service"),
        ("[plans.gold]\nper_hour = 2", "plans.gold: Object contains unknown field"),
    ],
)
def test_wrong_price_stops_the_server_before_it_says_that_it_serves(tmp_path, table, says):
    (tmp_path / "tollhouse.toml").write_text(table)
    is_one_line(run("serve", "--port", free_port(), cwd=tmp_path, log_level="error"), says)


def is_one_line(ended, setting):
    assert ended.returncode == 2
    assert ended.stdout == ""
    (line,) = ended.stderr.strip().splitlines()
    assert setting in line


def test_settings_file_is_read_from_the_working_directory_or_by_name(tmp_path):
    (tmp_path / "tollhouse.toml").write_text('log_level = "error"\n')
    (tmp_path / "other.toml").write_text('log_level = "debug"\n')
    assert json.loads(run("settings", cwd=tmp_path).stdout)["log_level"] == "error"
    named = run("settings", "--config", "other.toml", cwd=tmp_path)
    assert json.loads(named.stdout)["log_level"] == "debug"
    absent = run("settings", "--config", "absent.toml", cwd=tmp_path)
    assert absent.returncode == 2
    assert "absent.toml" in absent.stderr


def test_unknown_service_is_refused(tmp_path):
    ended = run("serve", "weather", "--port", free_port(), cwd=tmp_path)
    assert ended.returncode == 2
    assert "weather" in ended.stderr
    assert "defense" in ended.stderr
