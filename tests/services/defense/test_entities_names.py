import pytest

from tollhouse.services.defense.entities.extractor import extract_names
from tollhouse.services.defense.entities.lexicon import LONGEST_SENTENCE, sentences, tokenise
from tollhouse.services.defense.evaluate_entities import sentence_mentions


def names(text: str) -> set[tuple[str, str]]:
    return {(mention.text, mention.type) for mention in extract_names(text)}


def mentions(text: str) -> list[tuple[str, str]]:
    words = text.split()
    return [(" ".join(words[span.start : span.end]), span.type) for span in sentence_mentions(words)]


def test_the_title_of_a_person_is_part_of_the_mention():
    assert names("Secretary of Defense Lloyd Austin flew to Ramstein on Monday.") == {
        ("Secretary of Defense Lloyd Austin", "person"),
        ("Ramstein", "location"),
    }


def test_an_office_alone_names_nobody():
    assert not names("The Foreign Secretary said so.")


@pytest.mark.parametrize(
    "designator",
    [
        "F-35A", "Su-57", "MiG-31K", "MQ-9 Reaper", "S-400", "HIMARS", "Tomahawk", "Leopard 2", "T-90M", "Type 055",
        "USS Gerald R. Ford", "HMS Queen Elizabeth", "BMP-2", "AK-47", "F/A-18E/F", "Shahed-136", "Tu-22M3", "M777",
    ],
)  # fmt: skip
def test_a_designator_is_a_platform(designator):
    assert (designator, "platform") in names(f"Officials said the {designator} was seen near the border on Monday.")


@pytest.mark.parametrize(
    "platform",
    [
        "Merkava tanks", "Spike anti-tank missiles", "Typhoon fighter jets", "Chinook HC6", "Akula-class submarine",
        "Pinaka rockets", "Orlan-10 drones", "Bohdana howitzers", "Raptors F-22", "Fattah hypersonic missile",
    ],
)  # fmt: skip
def test_a_platform_is_known_with_the_noun_of_its_kind(platform):
    assert (platform, "platform") in names(f"Crews tested {platform} during the exercise.")


@pytest.mark.parametrize("text", ["Typhoon floods Manila.", "Tigers beat Hornets.", "Virginia votes today."])
def test_a_common_word_without_a_kind_is_no_platform(text):
    assert not {name for name, type_ in names(text) if type_ == "platform"}


@pytest.mark.parametrize("text", ["COVID-19 cases rose.", "The G-7 met.", "Article 5 was invoked.", "It cost $400."])
def test_what_only_looks_like_a_designator_is_no_platform(text):
    assert not {name for name, type_ in names(text) if type_ == "platform"}


def test_a_possessive_ends_a_name():
    found = names("Ukraine\u2019s army praised Lockheed's jets and Russia's S-400.")
    assert {("Ukraine", "location"), ("Lockheed", "organization"), ("Russia", "location")} <= found
    assert ("S-400", "platform") in found


def test_what_a_person_is_to_another_is_no_part_of_the_name():
    assert ("Hunter Biden", "person") in names("The president's son Hunter Biden met reporters in London.")


def test_a_hyphen_may_lie_inside_a_name_or_end_it():
    found = names("The US-led coalition killed Abu Yahya al-Libi of al-Qaeda in Iraq.")
    assert ("US", "organization") in found
    assert ("Abu Yahya al-Libi", "person") in found
    assert ("al-Qaeda in Iraq", "organization") in found


def test_a_headline_in_capitals_still_has_names():
    found = names("RUSSIA STRIKES KYIV WITH KINZHAL MISSILES AS PUTIN MEETS PENTAGON CHIEF")
    assert {("RUSSIA", "organization"), ("KYIV", "location")} <= found
    assert "KINZHAL" in {name.split()[0] for name, type_ in found if type_ == "platform"}


def test_small_words_in_capitals_are_no_organisations():
    assert not names("WHO IS TO BLAME AS IT GOES ON AND ON")


def test_a_headline_with_raised_words_has_names():
    found = names("Iran Fires Ballistic Missiles at Israel, IDF Says")
    assert found == {("Iran", "organization"), ("Israel", "location"), ("IDF", "organization")}


def test_a_month_and_a_bird_are_nobody():
    assert not names("They ate turkey for lunch, and in May the troops go home.")


def test_a_country_that_is_a_name_stays_with_the_person():
    found = names("Michael Jordan spoke. Troops from Jordan arrived.")
    assert found == {("Michael Jordan", "person"), ("Jordan", "location")}


@pytest.mark.parametrize(
    "text", ["", " ", "\n\n", "…", "'", "\u200e", "Путин приехал в Киев.", "国防部长在北京。", "وزير الدفاع"]
)
def test_text_without_our_letters_is_read_without_a_fault(text):
    assert all(text[mention.start : mention.end] == mention.text for mention in extract_names(text))


def test_a_name_with_accents_is_one_name():
    assert ("Recep Tayyip Erdoğan", "person") in names("President met Recep Tayyip Erdoğan in Ankara.") or (
        "President Recep Tayyip Erdoğan", "person",
    ) in names("President Recep Tayyip Erdoğan spoke in Ankara.")  # fmt: skip


def test_offsets_point_at_the_name_in_the_text():
    text = "  In Kyiv,\n\nPresident Joe Biden praised NATO."
    assert [text[mention.start : mention.end] for mention in extract_names(text)] == [
        "Kyiv",
        "President Joe Biden",
        "NATO",
    ]


def test_a_megabyte_is_read_whole():
    text = "NATO sent ships to the Black Sea on Monday. " * 23_000
    assert len(text) > 1_000_000
    assert sum(mention.text == "NATO" for mention in extract_names(text)) == 23_000


def test_a_megabyte_without_a_stop_is_cut_into_sentences():
    assert max(map(len, sentences("a " * 500_000))) == LONGEST_SENTENCE


def test_tokens_part_hyphens_and_possessives_and_keep_initials():
    assert [token.text for token in tokenise("U.S.-led F-35A's J. Doe 1,200")] == [
        "U.S.", "-", "led", "F", "-", "35A", "'s", "J.", "Doe", "1,200",
    ]  # fmt: skip


def test_a_mention_holds_its_article_and_what_describes_it():
    assert mentions("He said the brutal regime shelled northern Syria .") == [
        ("He", "person"),
        ("the brutal regime", "organization"),
        ("northern Syria", "location"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "Peru says talks will resume", "Lima talks: Peru to send envoys", "Chile warns Peru over border posts",
        "Chile at war with Peru", "Peru and Chile sign accord", "Peru quietly expels envoy",
        "Peru-backed militia retreats", "Peru Strikes Rebel Camps", "Chile, Peru agree truce",
    ],
)  # fmt: skip
def test_a_country_that_acts_is_an_organization(text):
    assert ("Peru", "organization") in names(text)


@pytest.mark.parametrize(
    "text",
    [
        "Floods in Peru kill nine", "Peru protests spread to the coast", "Chile closes border with Peru",
        "Thousands march across Peru", "Peru earthquake leaves towns without power", "Prices fall for Peru copper",
    ],
)  # fmt: skip
def test_a_country_that_does_nothing_is_a_location(text):
    assert ("Peru", "location") in names(text)


def test_a_country_that_acts_is_an_organization_among_mentions():
    assert mentions("Russia has bases in Syria .") == [
        ("Russia", "organization"),
        ("bases", "location"),
        ("Syria", "location"),
    ]


@pytest.mark.parametrize("weapon", ["petrol bombs", "submachine guns", "a homemade torpedo boat", "field artillery"])
def test_a_mention_is_any_kind_of_weapon_or_craft(weapon):
    assert (weapon, "platform") in mentions(f"Rebels seized {weapon} .")


def test_two_nouns_that_share_their_article_are_one_mention():
    assert ("the soldiers and sailors", "organization") in mentions("They thanked the soldiers and sailors .")


def test_the_holder_of_an_office_is_one_mention():
    assert ("Minister for Trade Jane Smith", "person") in mentions("Minister for Trade Jane Smith spoke .")


def test_possessor_and_of_belong_to_one_mention():
    assert mentions("the Government of Peru and Maduro 's brutal regime met .") == [
        ("the Government of Peru", "organization"),
        ("Maduro 's brutal regime", "organization"),
    ]


@pytest.mark.parametrize(
    ("headline", "told"),
    [
        (
            "RCEP China ASEAN to sign worlds biggest trade pact today leave door open for India",
            {("China", "location"), ("ASEAN", "organization"), ("India", "location")},
        ),
        (
            "Royal rift between Prince Harry Prince William 72 birthday double act",
            {("Prince Harry", "person"), ("Prince William", "person")},
        ),
        (
            "Trump Pompeo's refusal concede election damage America's soft",
            {("Trump", "person"), ("Pompeo", "person"), ("America", "location")},
        ),
        ("Denying Biden victory the party heads to Europe", {("Biden", "person"), ("Europe", "location")}),
        ("5 countries visited as mike Pompeo leaves for Paris", {("mike Pompeo", "person"), ("Paris", "location")}),
    ],
)
def test_names_that_an_address_ran_together_are_told_apart(headline, told):
    assert names(headline) >= told
    assert not {text for text, _ in names(headline)} & {
        "RCEP China ASEAN",
        "Prince Harry Prince William",
        "Trump Pompeo",
    }


@pytest.mark.parametrize(
    "whole",
    ["Georgia Senate", "Iraq Survey Group", "African Development Bank", "Libyan National Army", "Michael Jordan"],
)
def test_a_name_that_holds_another_stays_whole(whole):
    assert whole in {text for text, _ in names(f"Officials said that {whole} was of another mind.")}


def test_a_company_of_medicine_is_no_person():
    assert ("Pfizer", "organization") in names("Pfizer and the WHO discuss vaccine deliveries")


def test_letters_that_an_address_lost_its_sign_between_name_nobody():
    assert not names("M s board member reveals secrets of success")
