import json

import pytest

from tollhouse.config import loader
from tollhouse.config.loader import masked
from tollhouse.config.section import declarations
from tollhouse.config.settings import SECTIONS as SERVER_SECTIONS
from tollhouse.config.settings import SettingError, Settings
from tollhouse.services import SECTIONS
from tollhouse.services import load_settings as load
from tollhouse.services.defense.settings import DefenseSettings


@pytest.fixture(autouse=True)
def bare(monkeypatch, tmp_path):
    """No settings from outside, and a working directory without a file."""
    for name in list(loader.os.environ):
        if name.startswith("TOLLHOUSE_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def defense(settings: Settings) -> DefenseSettings:
    return settings.section(DefenseSettings)


def refused(**overrides: object):
    with pytest.raises(SettingError) as raised:
        load(**overrides)
    message = str(raised.value)
    assert "\n" not in message
    return message


def test_nothing_set_means_the_defaults():
    assert load() == Settings(sections=tuple(section() for section in SECTIONS))


def test_command_line_goes_before_environment_before_file(bare, monkeypatch):
    (bare / "tollhouse.toml").write_text('log_level = "error"\ndata_dir = "file"\nretention_days = 3\n')
    assert (load().log_level, load().data_dir, defense(load()).retention_days) == ("error", "file", 3)
    monkeypatch.setenv("TOLLHOUSE_DATA_DIR", "environment")
    assert (load().data_dir, defense(load()).retention_days) == ("environment", 3)
    assert load(data_dir="command line").data_dir == "command line"
    assert load(data_dir=None).data_dir == "environment"


def test_file_by_name_goes_in_place_of_the_one_here(bare):
    (bare / "tollhouse.toml").write_text("retention_days = 3\n")
    (bare / "other.toml").write_text("workers = 2\n")
    assert (defense(load("other.toml")).retention_days, load("other.toml").workers) == (8, 2)


def test_every_type_is_read_from_the_environment(monkeypatch):
    for name, text in {"WORKERS": "3", "RECORDED": "true", "GDELT_POLL_SECONDS": "0.5",
                       "HOSTS": "a.org=defense, b.org=x",
                       "BACKGROUND_WORK": "false", "TRUSTED_PROXIES": "10.0.0.0/8, ::1"}.items():  # fmt: skip
        monkeypatch.setenv(f"TOLLHOUSE_{name}", text)
    settings = load()
    assert (settings.workers, settings.recorded, defense(settings).gdelt_poll_seconds) == (3, True, 0.5)
    assert settings.background_work is False
    assert settings.hosts == {"a.org": "defense", "b.org": "x"}
    assert [str(network) for network in settings.trusted_networks()] == ["10.0.0.0/8", "::1/128"]


def test_hosts_may_be_a_table_of_the_file(bare):
    (bare / "tollhouse.toml").write_text('[hosts]\n"feeds.example.org" = "defense"\n')
    assert load().hosts == {"feeds.example.org": "defense"}


@pytest.mark.parametrize(("text", "value"), [("true", True), ("false", False), ("2023-07-02", "2023-07-02")])
def test_recording_is_chosen_by_its_day(bare, monkeypatch, text, value):
    monkeypatch.setenv("TOLLHOUSE_RECORDED", text)
    assert load().recorded == value
    monkeypatch.delenv("TOLLHOUSE_RECORDED")
    (bare / "tollhouse.toml").write_text(f"recorded = {text if isinstance(value, bool) else repr(text)}\n")
    assert load().recorded == value
    monkeypatch.setattr(loader.os, "environ", {})
    loader.export(load())
    assert load("/dev/null").recorded == value


def test_unknown_recording_is_refused_with_the_known_ones():
    assert refused(recorded="2022-01-01") == (
        "recorded: must be `true`, `false`, or the day of a bundled recording: 2020-11-15 or 2023-07-02"
    )


def test_exported_settings_are_the_same_in_a_worker(monkeypatch):
    chosen = Settings(
        workers=2,
        recorded=True,
        hosts={"a.org": "defense"},
        trusted_proxies="10.0.0.0/8, ::1",
        operator_token="x" * 20,
        allowed_hosts=("a.org:8000", "b.org"),
        sections=tuple(section() for section in SECTIONS),
    )
    monkeypatch.setattr(loader.os, "environ", {})
    loader.export(chosen)
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
        ("operator_token", "x"), ("operator_token", "x" * 19), ("operator_token", "with a space" * 2),
        ("operator_token", "é" * 20), ("allowed_hosts", "http://a.org"), ("operator_listen", "9000"),
        ("operator_listen", "localhost"), ("public_url", "example.org"), ("gdelt_url", "ftp://x"),
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
        operator_token="hunter2",
        key_hash_secret="hunter2",
        database_url="postgresql://me:hunter2@localhost/x",
        redis_url="redis://:hunter2@localhost/1",
    )
    output = masked(settings)
    assert "hunter2" not in json.dumps(output)
    assert output["operator_token"] == output["key_hash_secret"] == "***"
    assert output["database_url"] == "postgresql://me:***@localhost/x"


@pytest.mark.parametrize(
    "url", ["postgresql://me:hun@ter2@localhost/x", "postgresql://me:hun/ter2@localhost/x",
            "postgresql://localhost/x?user=me&password=hunter2"]
)  # fmt: skip
def test_password_of_any_shape_is_masked(url):
    output = json.dumps(masked(Settings(database_url=url)))
    assert "ter2" not in output


def test_unset_secret_is_shown_as_unset():
    assert masked(Settings())["operator_token"] == ""


def test_refusal_of_a_secret_does_not_show_it(monkeypatch):
    monkeypatch.setenv("TOLLHOUSE_DATABASE_URL", "mysql://me:hunter2@localhost/x")
    assert "hunter2" not in refused()


def test_not_a_number_is_refused_as_a_price(monkeypatch):
    monkeypatch.setenv("TOLLHOUSE_X402_PRICE_USD", "nan")
    assert refused().startswith("x402_price_usd: must be greater than zero")


def test_refusal_says_what_the_value_must_be(monkeypatch):
    monkeypatch.setenv("TOLLHOUSE_TREASURY_ADDRESS", "0x12")
    assert refused() == "treasury_address: must be an address, 0x and 40 hexadecimal digits"
    monkeypatch.delenv("TOLLHOUSE_TREASURY_ADDRESS")
    monkeypatch.setenv("TOLLHOUSE_FEEDS", "https://a.example/feed,ftp://b.example")
    assert refused().startswith("feeds: must be a list; each must be an http:// or https:// URL")


def test_operators_token_is_still_read_under_its_former_name(bare, monkeypatch):
    (bare / "tollhouse.toml").write_text('admin_token = "a-token-of-the-operator"\n')
    assert load().operator_token == "a-token-of-the-operator"
    monkeypatch.setenv("TOLLHOUSE_OPERATOR_TOKEN", "another-token-of-the-operator")
    assert load().operator_token == "another-token-of-the-operator"
    monkeypatch.setenv("TOLLHOUSE_ADMIN_TOKEN", "a-token-of-the-operator")
    assert refused() == "admin_token: is the former name of operator_token; set only operator_token"
    monkeypatch.delenv("TOLLHOUSE_OPERATOR_TOKEN")
    monkeypatch.setenv("TOLLHOUSE_ADMIN_TOKEN", "short")
    assert "`admin_token`" in refused()


def test_settings_of_a_service_come_from_the_same_file(bare):
    (bare / "tollhouse.toml").write_text("retention_days = 3\nworkers = 2\n")
    assert (load().workers, defense(load()).retention_days, defense(Settings()).retention_days) == (2, 3, 8)


def test_every_setting_has_one_section_and_a_meaning_of_one_line():
    sections = [*SERVER_SECTIONS, *SECTIONS]
    assert sum(len(declarations([section])) for section in sections) == len(declarations(sections))
    for declared in declarations(sections).values():
        assert declared.meaning, declared.name
        assert "\n" not in declared.meaning
        assert declared.section


def test_nothing_is_read_over_plain_http_unless_the_operator_says_so():
    for name, declared in declarations([*SERVER_SECTIONS, *SECTIONS]).items():
        values = declared.default if isinstance(declared.default, tuple) else (declared.default,)
        assert not [value for value in values if str(value).startswith("http://")], name
