import pytest

from tollhouse.services.defense.ingest.url_title import title_from_url

TITLES = [
    ("https://a.org/news/five-turkish-military-personnel-wounded-in-syria",
     "Five Turkish military personnel wounded in Syria"),
    ("https://www.reuters.com/article/us-syria-security/five-soldiers-wounded-in-syria-ministry-idUSKBN1X31W0",
     "Five soldiers wounded in Syria ministry"),
    ("https://a.org/news/us-israel-worked-together-to-track-and-kill-al-qaida-no-2/5924933/?cat=1",
     "US Israel worked together to track and kill al-Qaida No. 2"),
    ("https://a.org/in-f-35-sale-to-uae-senate-seeks-state-dept-guarantees",
     "In F-35 sale to UAE Senate seeks state dept guarantees"),
    ("https://a.org/world/north-korea-waging-80-day-labor-campaign/ar-BB1aYoEu",
     "North Korea waging 80 day labor campaign"),
    ("https://a.org/news/daily-anti-government-protests-in-poland/article_4c97882b-6f88-509e-83e5-b28d3d9ce311.html",
     "Daily anti-government protests in Poland"),
    ("https://a.org/en/live-news/20201113-new-york-rolls-out-curbs", "New York rolls out curbs"),
    ("https://a.org/stock-market-rally-in-delhi-1.5189316", "Stock market rally in Delhi"),
    ("https://a.org/bank-of-england-s-bailey-says-no", "Bank of England's bailey says no"),
    ("https://a.org/irans-parliament-wont-meet", "Iran's parliament won't meet"),
    ("https://a.org/army-says-let-us-go-now", "Army says let us go now"),
    ("https://a.org/news/Calls-former-New-Zealand-PM-resign", "Calls former New Zealand PM resign"),
    ("https://a.org/%d0%b2%d0%be%d0%b9%d0%bd%d0%b0-%d1%83%d0%b6%d0%b5-%d0%b8%d0%b4%d0%b5%d1%82", "Война уже идет"),
    ("https://a.org/el-gobierno-de-la-republica-anuncia", "El gobierno de la republica anuncia"),
    ("https://a.org/18868611.nissans-civil-court-case", "Nissans civil court case"),
    ("https://a.org/how-lord-mountbatten-e2-80-99s-murder-changed", "How lord mountbatten's murder changed"),
    ("https://a.org/index.php?id=48257&SEO=european-executive-condemns-violence-in-chile",
     "European executive condemns violence in Chile"),
    ("https://a.org/man-arrested-after-assault-2", "Man arrested after assault"),
    ("https://a.org/covid-19-curfew-begins-day-2", "Covid-19 curfew begins day 2"),
    ("https://a.org/al-qaedas-second-in-command-killed", "Al-Qaeda's second in command killed"),
]  # fmt: skip


@pytest.mark.parametrize(("url", "title"), TITLES)
def test_slug_reads_as_a_headline(url: str, title: str) -> None:
    assert title_from_url(url) == title


@pytest.mark.parametrize(
    "url",
    [
        "https://allafrica.com/stories/202011130152.html",
        "http://www.xinhuanet.com/english/2020-11/14/c_139515664.htm",
        "http://watchingamerica.com/WA/tag/united-nations/",
        "https://in.reuters.com/article/us-health-coronavirus-poland-idINKBN27K0W1",
        "https://www.kpcnews.com/heraldrepublican/article_08b648e8-0159-5d7f-aa12-265985a40197.html",
        "https://a.org/arts-and-entertainment/",
        "https://a.org/",
        "https://a.org",
        "not a url",
    ],
)
def test_url_with_fewer_than_three_real_words_has_no_headline(url: str) -> None:
    assert title_from_url(url) is None


def test_places_of_the_event_get_their_capitals_back() -> None:
    assert (
        title_from_url("https://a.org/shelling-near-tovuz-continues", ["Tovuz, Azerbaijan"])
        == "Shelling near Tovuz continues"
    )


def test_news_is_no_possessive_of_new_york():
    assert title_from_url("https://a.org/world-news-us-tracks-agent", {"New York, United States"}) == (
        "World news US tracks agent"
    )
