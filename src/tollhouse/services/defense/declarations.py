"""The defense service's operations, declared."""

from collections.abc import Sequence

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
from tollhouse.http.endpoint import JSON, Endpoint, Example
from tollhouse.http.terms import FREE, KEY_UNMETERED
from tollhouse.services.defense.examples import example


def operations(keys: KeyEndpoints, agents: AgentEndpoints) -> Sequence[Endpoint]:
    """The operations on keys and agents."""
    return [
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
