import json

import pytest

from tollhouse.config import settings as setting
from tollhouse.config.settings import SettingError, Settings, load, shown


@pytest.fixture(autouse=True)
def bare(monkeypatch, tmp_path):
    """No settings from outside, and a working directory without a file."""
    for name in list(setting.os.environ):
        if name.startswith("TOLLHOUSE_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refused(**overrides: object):
    with pytest.raises(SettingError) as raised:
        load(**overrides)
    message = str(raised.value)
    assert "\n" not in message
    return message


def test_nothing_set_means_the_defaults():
    assert load() == Settings()


def test_command_line_goes_before_environment_before_file(bare, monkeypatch):
    (bare / "tollhouse.toml").write_text('log_level = "error"\ndata_dir = "file"\nretention_days = 3\n')
    assert (load().log_level, load().data_dir, load().retention_days) == ("error", "file", 3)
    monkeypatch.setenv("TOLLHOUSE_DATA_DIR", "environment")
    assert (load().data_dir, load().retention_days) == ("environment", 3)
    assert load(data_dir="command line").data_dir == "command line"
    assert load(data_dir=None).data_dir == "environment"


def test_file_by_name_goes_in_place_of_the_one_here(bare):
    (bare / "tollhouse.toml").write_text("retention_days = 3\n")
    (bare / "other.toml").write_text("workers = 2\n")
    assert (load("other.toml").retention_days, load("other.toml").workers) == (8, 2)


def test_every_type_is_read_from_the_environment(monkeypatch):
    for name, text in {"WORKERS": "3", "RECORDED": "true", "GDELT_POLL_SECONDS": "0.5",
                       "HOSTS": "a.org=defense, b.org=x",
                       "BACKGROUND_WORK": "false", "TRUSTED_PROXIES": "10.0.0.0/8, ::1"}.items():  # fmt: skip
        monkeypatch.setenv(f"TOLLHOUSE_{name}", text)
    settings = load()
    assert (settings.workers, settings.recorded, settings.gdelt_poll_seconds) == (3, True, 0.5)
    assert settings.background_work is False
    assert settings.hosts == {"a.org": "defense", "b.org": "x"}
    assert [str(network) for network in settings.trusted_networks()] == ["10.0.0.0/8", "::1/128"]


def test_hosts_may_be_a_table_of_the_file(bare):
    (bare / "tollhouse.toml").write_text('[hosts]\n"feeds.example.org" = "defense"\n')
    assert load().hosts == {"feeds.example.org": "defense"}


def test_exported_settings_are_the_same_in_a_worker(monkeypatch):
    chosen = Settings(
        workers=2, recorded=True, hosts={"a.org": "defense"}, trusted_proxies="10.0.0.0/8, ::1", admin_token="x"
    )
    monkeypatch.setattr(setting.os, "environ", {})
    setting.export(chosen)
    assert load() == chosen


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("colour", "red"), ("workers", "many"), ("workers", "0"), ("workers", "-1"), ("workers", "1.5"),
        ("workers", ""),
        ("retention_days", "0"), ("gdelt_poll_seconds", "0"), ("gdelt_poll_seconds", "-5"),
        ("gdelt_poll_seconds", "nan"),
        ("request_deadline_seconds", "0"), ("request_deadline_seconds", "nan"), ("body_limit_bytes", "0"),
        ("keys_per_address_per_hour", "0"), ("recorded", "maybe"), ("log_level", "loud"), ("trusted_proxies", "evil"),
        ("trusted_proxies", "10.0.0.0/99"), ("database_url", "mysql://x"), ("redis_url", "http://x"),
        ("public_url", "example.org"), ("gdelt_url", "ftp://x"),
    ],
)  # fmt: skip
def test_wrong_setting_is_one_line_that_names_it(monkeypatch, name, text):
    monkeypatch.setenv(f"TOLLHOUSE_{name.upper()}", text)
    assert refused().startswith(f"{name}:")


@pytest.mark.parametrize("text", ["colour = 1", "workers = 'x'", "workers = [1]", "hosts = 5", "log_level = 'loud'"])
def test_wrong_setting_of_the_file_is_named(bare, text):
    (bare / "tollhouse.toml").write_text(text)
    assert text.partition(" ")[0] in refused()


@pytest.mark.parametrize("raw", [b"workers = ", b"\xff\xfe", b"[hosts", b"workers = 1\nworkers = 2"])
def test_broken_file_is_named(bare, raw):
    (bare / "tollhouse.toml").write_bytes(raw)
    assert "tollhouse.toml" in refused()


def test_file_that_is_not_there_is_named_only_when_asked_for():
    load()
    with pytest.raises(SettingError, match=r"absent\.toml"):
        load("absent.toml")


def test_secrets_are_masked():
    settings = Settings(
        admin_token="hunter2",
        key_hash_secret="hunter2",
        database_url="postgresql://me:hunter2@localhost/x",
        redis_url="redis://:hunter2@localhost/1",
    )
    told = shown(settings)
    assert "hunter2" not in json.dumps(told)
    assert told["admin_token"] == told["key_hash_secret"] == "***"
    assert told["database_url"] == "postgresql://me:***@localhost/x"


@pytest.mark.parametrize(
    "url", ["postgresql://me:hun@ter2@localhost/x", "postgresql://me:hun/ter2@localhost/x",
            "postgresql://localhost/x?user=me&password=hunter2"]
)  # fmt: skip
def test_password_of_any_shape_is_masked(url):
    told = json.dumps(shown(Settings(database_url=url)))
    assert "ter2" not in told


def test_unset_secret_is_shown_as_unset():
    assert shown(Settings())["admin_token"] == ""


def test_refusal_of_a_secret_does_not_show_it(monkeypatch):
    monkeypatch.setenv("TOLLHOUSE_DATABASE_URL", "mysql://me:hunter2@localhost/x")
    assert "hunter2" not in refused()
