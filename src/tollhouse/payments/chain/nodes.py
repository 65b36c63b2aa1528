"""Several nodes of one chain: a read is answered by the first that is available."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from tollhouse.payments.chain.client import ChainClient
from tollhouse.payments.chain.replies import ChainUnavailable

T = TypeVar("T")


class Nodes:
    """One or more nodes, in order of preference."""

    def __init__(self, *clients: ChainClient) -> None:
        self.clients = clients
        # A node that failed is asked again when the one that took its place fails.
        self._preferred = clients

    async def first(self, read: Callable[[ChainClient], Awaitable[T]]) -> tuple[ChainClient, T]:
        """The result of a whole read from one node, and the node. Raises ChainUnavailable if none is available."""
        order = self._preferred
        for position, client in enumerate(order):
            try:
                result = await read(client)
            except ChainUnavailable:
                if position == len(order) - 1:
                    raise
            else:
                if position:
                    self._preferred = (*order[position:], *order[:position])
                return client, result
        raise AssertionError("there is at least one node")

    def others(self, node: ChainClient) -> list[ChainClient]:
        """Every node but that one."""
        return [client for client in self.clients if client is not node]

    async def close(self) -> None:
        """Close every connection."""
        for client in self.clients:
            await client.close()
