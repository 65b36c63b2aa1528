"""The tour: what this server offers and every way to pay for it, one chapter each."""

from collections.abc import Awaitable, Callable

from tollhouse.demo.environment import Stage
from tollhouse.demo.key_chapters import by_alert, for_nothing, with_a_key
from tollhouse.demo.operator_chapter import the_books
from tollhouse.demo.payment_chapters import by_the_request, over_mcp, with_a_wallet
from tollhouse.demo.printer import Narrator

Chapter = Callable[[Stage, Narrator], Awaitable[None]]

CHAPTERS: tuple[Chapter, ...] = (
    for_nothing,
    with_a_key,
    by_alert,
    with_a_wallet,
    over_mcp,
    by_the_request,
    the_books,
)


async def play(stage: Stage, tell: Narrator) -> None:
    """Every chapter in turn."""
    tell.say(f"A server of recorded data at {stage.root}, an Ethereum node at {stage.chain.url}.")
    for chapter in CHAPTERS:
        await chapter(stage, tell)


async def addresses(stage: Stage) -> list[tuple[str, str]]:
    """Where to go on by oneself, and with what."""
    return [
        ("the console", f"{stage.root}/"),
        ("the board", f"{stage.root}/board"),
        ("ask, alerts", f"{stage.root}/ask  {stage.root}/alerts"),
        ("a key for all", await stage.enterprise_key()),
        ("the wallet", f"{stage.root}/wallet?address={stage.agent.address}"),
        ("the operator", f"{stage.root}/operator  (open to this machine, for no admin_token is set)"),
        ("the reference", f"{stage.root}/defense/docs  and under each service"),
    ]
