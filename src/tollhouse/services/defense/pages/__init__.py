"""The pages of the defense service, declared beside their files."""

from pathlib import Path

from tollhouse.accounts.plans import Plans
from tollhouse.config.settings import Settings
from tollhouse.http.pages import FrontPageEntry, Page
from tollhouse.http.terms import AGENT_CALL
from tollhouse.money import usd
from tollhouse.services.defense.chat.dataset import declaration
from tollhouse.services.defense.chat.endpoints import VISITOR_QUESTIONS_PER_DAY
from tollhouse.services.defense.events.filter import FILTER_FIELDS, form_fields
from tollhouse.services.defense.gazetteer import COUNTRIES

# Examples that stand beside one another are alike.
EXAMPLES_STEP = 3

_HERE = Path(__file__).parent

# `at` and `map` are the view and the mode of the map, `list` what stands beside it; the rest opens things or filters.
_BOARD_PARAMETERS = ("at", "map", "list", "story", "event", *FILTER_FIELDS)
# Countries by name: the id of the shape in the atlas, ISO 3166-1 numeric, or its name there without one.
_BOARD_FACTS = {"filters": form_fields(), "countries": {one.name: one.numeric or one.name for one in COUNTRIES}}
_BOARD_FILES = ("../map.css", "board.css", "reading.css")

FRONT_PAGE = FrontPageEntry(
    title="Defense intelligence feed",
    summary="World events, news stories and the entities they name, for people and agents who follow security.",
    example_calls=("/feeds/events?limit=5", "/feeds/stories?limit=5", "/feeds/defense-brief"),
    page="/board",
    button="Open the dashboard",
    file=_HERE / "front.html",
    scripts=(*_BOARD_FILES, "front.js"),
    parameters=_BOARD_PARAMETERS,
    facts=_BOARD_FACTS,
    is_lead=True,
    sources=("The GDELT Project", "publishers' feeds"),
)


def build_pages(settings: Settings, plans: Plans) -> list[Page]:
    """The dashboard, the chat and the alerts. Chat and alerts show which plans include them."""
    models = list(dict.fromkeys((settings.model_fast, settings.model_pro))) if settings.llm_base_url else []
    caps = [{"tier": plan.name, "chat_per_day": plan.chat_per_day} for plan in plans.all if "chat" in plan.entitlements]
    return [
        Page(
            path="/board",
            title="Defense dashboard",
            label="Defense",
            file=_HERE / "dashboard.html",
            scripts=(*_BOARD_FILES, "brief.css", "dashboard.js"),
            parameters=("view", "type", *_BOARD_PARAMETERS),
            facts=_BOARD_FACTS,
        ),
        Page(
            path="/ask",
            title="Ask the defense feeds",
            label="Ask",
            file=_HERE / "chat.html",
            scripts=("chat.js", "../map.css", "chat.css", "reading.css"),
            parameters=("q", "story", "event", "entity"),
            facts={
                "plans": caps,
                "agent_usd": usd(AGENT_CALL.micros()),
                "models": models,
                "visitor_questions": VISITOR_QUESTIONS_PER_DAY,
                "examples": declaration().examples[::EXAMPLES_STEP],
            },
        ),
        Page(
            path="/alerts",
            title="Alerts",
            label="Alerts",
            file=_HERE / "alerts.html",
            scripts=("alerts.js", "alerts.css"),
            parameters=("alert",),
            facts={"tiers": plans.including("alerts")},
        ),
    ]
