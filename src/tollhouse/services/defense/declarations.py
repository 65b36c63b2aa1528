"""The defense service's operations, declared."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tollhouse.accounts.agent_endpoints import (
    AgentBalance,
    AgentEndpoints,
    AgentRegistered,
    AgentRequest,
    BalanceQuery,
    DepositCredited,
    DepositRequest,
)
from tollhouse.accounts.key_endpoints import KeyEndpoints, KeyIssued, KeyRequest, KeyRevoked, KeyStatus
from tollhouse.http.endpoint import Endpoint, Example
from tollhouse.http.terms import FREE, KEY_OR_AGENT, KEY_UNMETERED
from tollhouse.services.defense.brief.brief import Brief
from tollhouse.services.defense.brief.feed import BriefFeed
from tollhouse.services.defense.chat.declaration import chat_operation
from tollhouse.services.defense.chat.endpoints import ChatEndpoints
from tollhouse.services.defense.events.feed import EventDetail, EventsFeed
from tollhouse.services.defense.events.formats import CSV, FORMATS, GEOJSON, JSON, NDJSON, EventsPage
from tollhouse.services.defense.events.query import EventsQuery
from tollhouse.services.defense.examples import example
from tollhouse.services.defense.news.feeds import (
    EntitiesPage,
    EntitiesQuery,
    EntityDetail,
    NewsFeeds,
    StoriesPage,
    StoriesQuery,
    StoryDetail,
)

_COLLECTION: dict[str, Any] = {
    "type": "object",
    "description": "A GeoJSON FeatureCollection (RFC 7946); the page's own members stand beside `features`.",
    "required": ["type", "features", "total", "next_cursor"],
    "properties": {
        "type": {"const": "FeatureCollection"},
        "features": {"type": "array", "items": {"type": "object"}},
        "total": {"type": "integer"},
        "next_cursor": {"type": ["string", "null"]},
    },
}


@dataclass(frozen=True, slots=True)
class Feeds:
    """What the feeds' operations are answered by."""

    events: EventsFeed
    news: NewsFeeds
    brief: BriefFeed


def operations(feeds: Feeds, keys: KeyEndpoints, agents: AgentEndpoints, chat: ChatEndpoints) -> Sequence[Endpoint]:
    """Every operation, in the order the description shows them."""
    return [
        chat_operation(chat),
        Endpoint(
            id="listEvents",
            method="GET",
            path="/feeds/events",
            summary="Events of the past 24 hours",
            description="World events from The GDELT Project, one per source article, most significant first. "
            "Every filter narrows the list; `next_cursor` leads to the next page and is null on the last one.",
            handler=feeds.events.page,
            terms=KEY_OR_AGENT,
            query=EventsQuery,
            responses={
                JSON: EventsPage,
                GEOJSON: _COLLECTION,
                CSV: {"type": "string"},
                NDJSON: {"type": "string", "description": "One event a line"},
            },
            formats=FORMATS,
            problems=("upstream-unavailable",),
            tag="feeds",
            is_tool=True,
            examples={JSON: example("events_page"), CSV: example("csv"), NDJSON: json.dumps(example("event")) + "\n"},
            sample=Example(query={"country": "Ethiopia", "severity_tier": "high", "limit": 5}),
        ),
        Endpoint(
            id="getEvent",
            method="GET",
            path="/feeds/events/{id}",
            summary="One event and its provenance",
            description="The provider's row ids, the source, and why each figure has its value.",
            handler=feeds.events.one,
            terms=KEY_OR_AGENT,
            path_parameters=_id("conflict", example("event_detail")["id"]),
            responses={JSON: EventDetail},
            tag="feeds",
            is_tool=True,
            examples={JSON: example("event_detail")},
            sample=Example(path={"id": "$EVENT_ID"}),
        ),
        Endpoint(
            id="listStories",
            method="GET",
            path="/feeds/stories",
            summary="Stories of the past 24 hours",
            description="Articles about the same thing, told once, most significant first. A story keeps its id "
            "while it grows; `source_count` counts independent voices, so that one agency's text is not ten.",
            handler=feeds.news.stories,
            terms=KEY_OR_AGENT,
            query=StoriesQuery,
            responses={JSON: StoriesPage},
            problems=("upstream-unavailable",),
            tag="feeds",
            is_tool=True,
            examples={JSON: example("stories_page")},
            sample=Example(query={"q": "peace", "limit": 5}),
        ),
        Endpoint(
            id="getStory",
            method="GET",
            path="/feeds/stories/{id}",
            summary="One story",
            description="An id that was merged into another answers with its successor; `succeeds` says so.",
            handler=feeds.news.story,
            terms=KEY_OR_AGENT,
            path_parameters=_id("story", example("story_detail")["id"]),
            responses={JSON: StoryDetail},
            tag="feeds",
            is_tool=True,
            examples={JSON: example("story_detail")},
            sample=Example(path={"id": "$STORY_ID"}),
        ),
        Endpoint(
            id="listEntities",
            method="GET",
            path="/feeds/entities",
            summary="People, organizations, locations and platforms of the past 24 hours",
            description="Whom and what the articles name, most mentioned first.",
            handler=feeds.news.entities,
            terms=KEY_OR_AGENT,
            query=EntitiesQuery,
            responses={JSON: EntitiesPage},
            problems=("upstream-unavailable",),
            tag="feeds",
            is_tool=True,
            examples={JSON: example("entities_page")},
            sample=Example(query={"type": "person", "limit": 5}),
        ),
        Endpoint(
            id="getEntity",
            method="GET",
            path="/feeds/entities/{id}",
            summary="One entity",
            handler=feeds.news.entity,
            terms=KEY_OR_AGENT,
            path_parameters=_id("entity", example("entity_detail")["id"]),
            responses={JSON: EntityDetail},
            tag="feeds",
            is_tool=True,
            examples={JSON: example("entity_detail")},
            sample=Example(path={"id": "$ENTITY_ID"}),
        ),
        Endpoint(
            id="getDefenseBrief",
            method="GET",
            path="/feeds/defense-brief",
            summary="Production, live events and capability gaps on one page",
            description="Every figure is cited; docs/defense-brief.md says what each covers and what it does not.",
            handler=feeds.brief.brief,
            terms=KEY_OR_AGENT,
            responses={JSON: Brief},
            tag="feeds",
            is_tool=True,
            examples={JSON: example("brief")},
        ),
        Endpoint(
            id="createKey",
            method="POST",
            path="/api/keys/create",
            summary="Get a free API key",
            description="The key is shown once. At most 60 an hour go to one client address and 20 to one email.",
            handler=keys.create,
            terms=FREE,
            body=KeyRequest,
            responses={JSON: KeyIssued},
            problems=("tier-not-self-service", "too-many-keys"),
            tag="keys",
            examples={"body": example("key_request"), JSON: example("key_issued")},
        ),
        Endpoint(
            id="verifyKey",
            method="GET",
            path="/api/keys/verify",
            summary="What the key is and what is left of its plan",
            handler=keys.verify,
            terms=KEY_UNMETERED,
            responses={JSON: KeyStatus},
            tag="keys",
            examples={JSON: example("key_status")},
        ),
        Endpoint(
            id="rotateKey",
            method="POST",
            path="/api/keys/rotate",
            summary="Replace the key by a new one",
            description="The old text stops working; id, tier and what is used of the plan stay.",
            handler=keys.rotate,
            terms=KEY_UNMETERED,
            responses={JSON: KeyIssued},
            tag="keys",
            examples={JSON: example("key_issued")},
        ),
        Endpoint(
            id="revokeKey",
            method="POST",
            path="/api/keys/revoke",
            summary="Give the key back",
            description="The key opens nothing any more. This cannot be undone.",
            handler=keys.revoke,
            terms=KEY_UNMETERED,
            responses={JSON: KeyRevoked},
            tag="keys",
            examples={JSON: example("key_revoked")},
        ),
        Endpoint(
            id="registerAgent",
            method="POST",
            path="/api/agent/register",
            summary="Register a wallet as an agent",
            description="Answers how to sign calls and where to deposit. Registering again gives the same `agent_id`.",
            handler=agents.register,
            terms=FREE,
            body=AgentRequest,
            responses={JSON: AgentRegistered},
            problems=("rate-limited",),
            tag="agents",
            examples={"body": example("agent_request"), JSON: example("agent_registered")},
            sample=Example(body={"wallet_address": "$WALLET_ADDRESS", "label": "my agent"}),
        ),
        Endpoint(
            id="depositCredit",
            method="POST",
            path="/api/agent/deposit",
            summary="Report a deposit",
            description="Finds the USDC transfer from the wallet to the treasury on the chain and credits it, once.",
            handler=agents.deposit,
            terms=FREE,
            body=DepositRequest,
            responses={JSON: DepositCredited},
            problems=(
                "not-found",
                "deposit-pending",
                "deposit-invalid",
                "deposit-conflict",
                "rate-limited",
                "upstream-unavailable",
                "not-configured",
            ),
            tag="agents",
            examples={"body": example("deposit_request"), JSON: example("deposit_credited")},
            sample=Example(body={"wallet_address": "$WALLET_ADDRESS", "tx_hash": "$TX_HASH"}),
        ),
        Endpoint(
            id="getAgentBalance",
            method="GET",
            path="/api/agent/balance",
            summary="What a wallet has and what it did",
            handler=agents.balance,
            terms=FREE,
            query=BalanceQuery,
            responses={JSON: AgentBalance},
            problems=("not-found",),
            tag="agents",
            examples={JSON: example("agent_balance")},
            sample=Example(query={"wallet_address": "$WALLET_ADDRESS"}),
        ),
    ]


def _id(prefix: str, example_id: str) -> dict[str, dict[str, Any]]:
    schema = {"type": "string", "pattern": f"^{prefix}_[0-9a-f]{{16}}$"}
    return {"id": {"description": "Its id", "example": example_id, "schema": schema}}
