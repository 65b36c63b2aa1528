"""How many people a headline says were killed, and which of several publishers' figures is taken."""

import pytest

from tollhouse.services.defense.events.toll import Toll, best_toll, read_toll
from tollhouse.services.defense.events.toll_verbs import is_person


@pytest.mark.parametrize(
    ("title", "killed"),
    [
        ("At least 14 killed in market blast", 14),
        ("Twenty-two dead after ferry capsizes", 22),
        ("Shelling kills 6 soldiers and 3 civilians", 9),
        ("shelling kills 6 soldiers 3 civilians", 9),
        ("4 soldiers and 2 drivers were killed in ambush", 6),
        ("Militia killed 17 villagers, witnesses say", 17),
        ("Mudslide claims 8 lives", 8),
        ("Car bomb leaves 11 dead, 30 wounded", 11),
        ("Death toll rises to 27 from 21 after quake", 27),
        ("Family of four found dead at farm", 4),
        ("5 to 7 people killed in raid", 5),
        ("Half of bridge closed after 2 die", 2),
        ("A dozen killed as wall collapses", 12),
        ("Seven killed, including two children", 7),
        ("180 migrants die as boat sinks", 180),
        ("Fire kills 9 in ward for Covid-19 patients", 9),
        ("Gun attack on bus kills at least 34", 34),
        ("Crash kills seven, including two children", 7),
        ("Two Britons among 12 dead in shipwreck", 12),
        ("1 survivor, 7 killed in helicopter crash", 7),
        ("Pilot dies with six passengers as helicopter crashes", 7),
        ("Mayor killed along with two bodyguards", 3),
        ("Woman, 34, and baby killed in fire", 2),
        ("Gunmen shoot dead two policemen", 2),
        ("Man stabs to death his wife and two children", 3),
        ("Rangers gun down 3 poachers", 3),
        ("Father kills two children then himself", 3),
        ("Elderly couple found dead at home", 2),
        ("Deaths of two pilots investigated", 2),
        ("Militants behead more than 50", 50),
        ("Troops managed to kill three insurgents", 3),
        ("Six militants; soldier killed in gunfight", 7),
        ("Deadliest mine blast since 2009 kills 90", 90),
        ("Rebels kill 4 guards in failed attempt to free leader", 4),
        ("Bid to kill mayor: gunmen shoot dead two guards", 2),
        ("Triple murder: brother held for killing mother and sister", 3),
        ("Bodies of diver, 9-year-old son found", 2),
        ("Mason, 44, detained after two electrocuted", 2),
        ("3 Sol ultras killed, 4 hurt", 3),
        ("Two; including driver; killed as van overturns", 2),
        ("4 youths chase 17-year-old to death", 1),
        ("Footage of slide that killed six guides released", 6),
        ("Gang's leader convicted of 11 murders", 11),
        ("Parents, 3 sons dead in house fire", 5),
        ("Pair of climbers found dead below ridge", 2),
        ("Strike kills at least 17 as envoy visits", 17),
        ("Deaths of 4 boys, 1 man on lake investigated", 5),
        ("Man suspected of killing 5 farmers arrested in Klow", 5),
        ("What we know so far about family of 4 found dead", 4),
    ],
)
def test_number_of_killed_is_read(title, killed):
    assert read_toll(title).killed == killed


@pytest.mark.parametrize(
    "title",
    [
        "Farmer, 61, killed by falling tree",
        "12-year-old girl shot and killed near school",
        "Drone strike kills militant leader",
        "Guard fatally shot outside embassy",
        "Two charged in shooting death of teenager",
        "Masri killed in Tehran street",
        "Soldier wounded in blast dies",
        "Mother of three killed in crash",
        "Agents teamed up to track and kill Islamic State No. 2",
        "Body of missing hiker found in lake",
        "Kony found dead in forest",
        "Soldier loses his life in avalanche",
        "truckie dead after highway rollover",
        "Crash kills truckie near Dubbo",
        "Police investigate climbers death",
        "Probe launched into mine death",
        "Hiker falls to his death in Alps",
        "Mayor Kirk assassinated at rally in the capital",
        "Neighbours stabbed teenager to death in street brawl",
        "Woman jailed for life after pleading guilty to killing husband",
        "Six year old raped, murdered in village",
        "Divers find body of Anna Lund in lake",
        "Parents of girl whose body was found speak",
        "Dancer found dead at 31",
        "Man held in fatal St. Mary stabbing of neighbour",
        "Court told of murder of saddam s aide",
        "Rebels kill abducted midwife",
        "Rebels kill aid worker abducted in March",
        "Vice principal killed by driver in crash",
        "Jessica Lindqvist murder case before court",
        "Details emerge of man whose body was dumped",
        "Teenager charged with murder in stabbing of girl",
        "Arrest in singer's 1996 killing",
    ],
)
def test_one_person_without_a_number_is_one(title):
    assert read_toll(title).killed == 1


@pytest.mark.parametrize(
    ("title", "killed", "wounded", "arrested"),
    [
        ("Guard killed 6 injured in attack", 1, 6, None),
        ("Commander killed 3 militants arrested", 1, None, 3),
        ("Nine wounded as troops fire on crowd", None, 9, None),
        ("12 arrested after 2 killed in riot", 2, None, 12),
        ("Blast kills two, injures fifteen", 2, 15, None),
    ],
)
def test_each_number_belongs_to_its_own_verb(title, killed, wounded, arrested):
    toll = read_toll(title)
    assert (toll.killed, toll.wounded, toll.arrested) == (killed, wounded, arrested)


@pytest.mark.parametrize(
    "title",
    [
        "Dozens killed in clashes",
        "Fifth night of riots in Lyon",
        "Actor dies aged 86",
        "Plot to kill 5 officials foiled",
        "Guards stop attempt assassinate prime minister",
        "Police foil killing of minister",
        "President's assassination attempt probed",
        "Clerk plotted murder of two rivals",
        "30 feared dead after landslide",
        "Drought could kill 2,000 people",
        "Court hears 3 lies about 2019 budget",
        "Protest over teen's killing by police",
        "Day 12 of talks on Dead Sea canal",
        "Kills 99% of germs, maker says",
        "Court sentences 12 to death for spying",
        "Whale killed by ship",
        "31 sloths die before opening of zoo attraction",
        "Senate kills budget plan",
        "Singer dead at 42",
        "Composer Ann Lund, 81, dies",
        "Body parts found on beach",
        "Fire was no accident; it's murder, say neighbours",
        "Cousin held for family's murder",
        "Dengue outbreak: 14 deaths as hospitals fill",
        "Witness says she thought he had died in crash",
        "A child dies every five seconds",
        "Child deaths cut by half",
        "Anna Lund dead",
        "Minister Halden dies at clinic",
        "Two held over chat about killing minister",
        "Police probe killing of seven puppies",
        "Sydney murder trial begins",
        "'Do not riot,' killed teen's grandmother says",
    ],
)
def test_number_is_not_invented(title):
    assert read_toll(title).killed is None


@pytest.mark.parametrize(
    "title",
    [
        "Covid-19 kills 1,200 in a day",
        "31 die of malaria in Assam",
        "10,000 killed in war since 2015",
        "300 road deaths so far this year",
        "1,422 people died in floods in 2017-18, says minister",
    ],
)
def test_sums_over_an_epidemic_or_a_year_are_not_an_events_toll(title):
    assert read_toll(title) == Toll(is_cumulative=True)


def test_animals_used_of_persons_are_no_persons():
    assert is_person("soldier")
    assert not is_person("whale")


def test_date_at_the_end_of_an_address_counts_no_one():
    assert read_toll("Driver held over death of Anna Lund in crash 2018 09 18").killed == 1


def test_headline_that_says_nobody_died_is_zero():
    assert read_toll("No one killed as roof collapses").killed == 0
    assert read_toll("Nobody killed as train derails").killed == 0
    assert read_toll("Rocket hits base, no casualties").killed == 0


def test_lower_bound_and_words_are_kept():
    toll = read_toll("At least 14 killed in market blast")
    assert toll.is_at_least
    assert toll.words == "14 killed"


def test_figure_of_most_publishers_is_taken():
    tolls = [("a", Toll(3)), ("b", Toll(5)), ("c", Toll(5)), ("d", Toll())]
    best = best_toll(tolls)
    assert best is not None
    assert (best.killed, best.publishers, best.counted) == (5, 2, 3)


def test_publisher_counts_once_with_its_newest_figure():
    best = best_toll([("a", Toll(3)), ("a", Toll(4)), ("b", Toll(4))])
    assert best is not None
    assert (best.killed, best.publishers, best.counted) == (4, 2, 2)


def test_larger_of_equally_supported_figures_is_taken():
    best = best_toll([("a", Toll(9)), ("b", Toll(7))])
    assert best is not None
    assert best.killed == 9


def test_without_figures_there_is_no_toll():
    assert best_toll([("a", Toll()), ("b", Toll(wounded=3))]) is None
