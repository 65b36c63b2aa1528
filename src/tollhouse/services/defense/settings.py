"""The defense service's settings."""

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from tollhouse.config.section import HttpUrl, PositiveFloat, PositiveInt, Section, setting

FeedUrl = Annotated[
    str, Meta(pattern="^https?://", max_length=500, description="an http:// or https:// URL of at most 500 characters")
]

# The bucket behind http://data.gdeltproject.org/gdeltv2/, which has no certificate of its own. GDELT's lists name that
# address; files are fetched from here, and compared with the size and the MD5 that a list announces.
GDELT_FILES = "https://storage.googleapis.com/data.gdeltproject.org/gdeltv2/"

# RSS and Atom feeds of defense publishers.
FEEDS = (
    "https://www.defenseone.com/rss/all/",
    "https://breakingdefense.com/feed/",
    "https://www.defensenews.com/arc/outboundfeeds/rss/?outputType=xml",
    "https://www.militarytimes.com/arc/outboundfeeds/rss/?outputType=xml",
    "https://www.armytimes.com/arc/outboundfeeds/rss/?outputType=xml",
    "https://www.navytimes.com/arc/outboundfeeds/rss/?outputType=xml",
    "https://www.airforcetimes.com/arc/outboundfeeds/rss/?outputType=xml",
    "https://www.c4isrnet.com/arc/outboundfeeds/rss/?outputType=xml",
    "https://www.twz.com/feed",
    "https://taskandpurpose.com/feed/",
    "https://warontherocks.com/feed/",
    "https://news.usni.org/feed",
    "https://www.shephardmedia.com/news/feed/",
    "https://spacenews.com/feed/",
    "https://gcaptain.com/feed/",
    "https://www.airandspaceforces.com/feed/",
    "https://www.gov.uk/government/organisations/ministry-of-defence.atom",
)


@dataclass(frozen=True, kw_only=True)
class DefenseSettings(Section):
    """Defense service."""

    gdelt_url: HttpUrl = setting(GDELT_FILES, "URL of GDELT's file lists and exports")
    gdelt_poll_seconds: PositiveFloat = setting(60.0, "Seconds between polls of GDELT")
    retention_days: PositiveInt = setting(8, "Days that live rows and events are kept")
    feeds: tuple[FeedUrl, ...] = setting(FEEDS, "RSS and Atom feeds to read, a list; empty: none")
    feed_interval_seconds: PositiveFloat = setting(900.0, "Seconds between polls of each feed")
    ucdp_token: str = setting("", "Access token of the UCDP API, the source of fatality figures", "secret")
    ucdp_version: str = setting("26.1", "UCDP release: `26.1`, or `26.0.9` for a candidate release")
    ucdp_url: HttpUrl = setting("https://ucdpapi.pcr.uu.se/api/", "URL of the UCDP API")
    acled_username: str = setting("", "Name of your ACLED account, a source of fatality figures")
    acled_password: str = setting("", "Password of your ACLED account", "secret")
    acled_url: HttpUrl = setting("https://acleddata.com/", "URL of ACLED's site")
