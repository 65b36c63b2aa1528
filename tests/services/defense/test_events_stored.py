"""Stored events as those who count the dead weigh them."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from tests.services.defense.test_ucdp import DAY, event
from tollhouse.services.defense.events.event import FatalityRecord, to_event
from tollhouse.services.defense.events.history import with_fatalities

COUNTED = FatalityRecord(
    provider="ucdp", id="500001", date=DAY, days=1, country="SD", latitude=13.63, longitude=25.35, best=7, high=9,
    low=5, headline="", where_precision=1, source_url="",
)  # fmt: skip


def counting(*records: FatalityRecord):
    by_country = {}
    for record in records:
        by_country.setdefault(record.country, []).append(record)
    return by_country


def test_counted_deaths_replace_those_of_the_headline_and_say_so():
    told = with_fatalities(event(fatalities=3, fatalities_basis="headline", reasons={"geo": "kept"}), counting(COUNTED))
    assert (told.fatalities, told.fatalities_basis) == (7, "ucdp")
    assert told.reasons == {"geo": "kept", "fatalities": "ucdp record 500001 counts 7 (between 5 and 9)"}


def test_other_provider_is_named_as_the_basis():
    told = with_fatalities(event(), counting(replace(COUNTED, provider="acled", id="SUD1")))
    assert told.fatalities_basis == "acled"
    assert told.reasons["fatalities"].startswith("acled record SUD1")


@pytest.mark.parametrize(
    "records",
    [
        (),
        (replace(COUNTED, country="TD"),),
        (replace(COUNTED, date=DAY - timedelta(days=2)),),
        (replace(COUNTED, latitude=15.0),),
        (COUNTED, replace(COUNTED, id="500002")),
    ],
    ids=["nothing counted", "another country", "another day", "another place", "two that fit"],
)
def test_event_that_no_one_record_speaks_of_stays_as_it_is(records):
    assert with_fatalities(event(fatalities=3), counting(*records)) == event(fatalities=3)


def test_peaceful_event_gets_nobodys_deaths():
    assert with_fatalities(event(is_violent=False), counting(COUNTED)).fatalities == 0


def test_same_record_read_twice_is_one():
    assert with_fatalities(event(), counting(COUNTED, COUNTED)).fatalities == 7


def test_records_are_found_by_country():
    chad = replace(COUNTED, country="TD", id="2")
    assert counting(COUNTED, chad) == {"SD": [COUNTED], "TD": [chad]}


def test_counted_deaths_raise_the_tier():
    counted = with_fatalities(event(), counting(replace(COUNTED, best=30, high=30)))
    assert to_event(event()).metrics.severity_tier == "low"
    assert to_event(counted).metrics.severity_tier == "critical"
