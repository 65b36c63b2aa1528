"""An upstream over real sockets that behaves as its path says, well or badly: `python upstream_program.py PORT`."""

import asyncio
import hashlib
import json
import sys
from collections import Counter
from contextlib import suppress
from urllib.parse import parse_qsl

PIECE = b"x" * 65_536
BODY = b'{"forecast": "' + b"sunny " * 850 + b'"}'

seen: Counter[str] = Counter()


class Connection:
    """One connection, and the request that it carries now."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def serve(self) -> None:
        seen["connections"] += 1
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while await self.answer():
                pass
        self.writer.close()

    async def answer(self) -> bool:
        head = await self.reader.readuntil(b"\r\n\r\n")
        line, *lines = head.decode("latin-1").split("\r\n")[:-2]
        self.method, self.target, _ = line.split(" ")
        self.headers = [tuple(one.split(": ", 1)) for one in lines]
        self.fields = dict(self.headers)
        path, _, query = self.target.partition("?")
        name, self.query = path.rpartition("/")[2], dict(parse_qsl(query))
        seen[name] += 1
        handle = getattr(self, f"do_{name.replace('-', '_')}", self.do_echo)
        return await handle() is not False

    async def body(self) -> bytes:
        if self.fields.get("transfer-encoding") == "chunked":
            body = b""
            while size := int(await self.reader.readline(), 16):
                body += (await self.reader.readexactly(size + 2))[:-2]
            await self.reader.readline()
            return body
        return await self.reader.readexactly(int(self.fields.get("content-length", 0)))

    async def send(self, status: str, *headers: str, body: bytes = b"", length: bool = True) -> None:
        lines = [f"HTTP/1.1 {status}", *headers, *([f"Content-Length: {len(body)}"] if length else [])]
        self.writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + (b"" if self.method == "HEAD" else body))
        await self.writer.drain()

    async def chunk(self, piece: bytes) -> None:
        self.writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        await self.writer.drain()

    # What the last part of a path asks for.

    async def do_echo(self) -> None:
        if "expect" in self.fields:
            self.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = await self.body()
        told = {"method": self.method, "target": self.target, "headers": self.headers, "bytes": len(body)}
        told["sha256"] = hashlib.sha256(body).hexdigest()
        await self.send("200 OK", "Content-Type: application/json", "Server: fake", body=json.dumps(told).encode())

    async def do_seen(self) -> None:
        await self.send("200 OK", "Content-Type: application/json", body=json.dumps(seen).encode())

    async def do_json(self) -> None:
        await self.send("200 OK", "Content-Type: application/json", body=BODY)

    async def do_status(self) -> None:
        headers = [f"{name}: {value}" for name, value in self.query.items() if name != "is"]
        await self.send(self.query["is"], *headers, body=b"" if self.query["is"][:3] in {"204", "304"} else b"as said",
                        length=self.query["is"][:3] not in {"204", "304"})  # fmt: skip

    async def do_slow(self) -> None:
        gone = asyncio.ensure_future(self.reader.read(1))
        await asyncio.wait({gone}, timeout=float(self.query["seconds"]))
        if gone.done():
            seen["left"] += 1
            raise ConnectionError
        gone.cancel()
        await self.send("200 OK", body=b"late")

    async def do_no_answer(self) -> bool:
        return False

    async def do_closes_idle(self) -> bool:
        await self.send("200 OK", body=b"bye")
        return False

    async def do_garbage(self) -> bool:
        self.writer.write(b"SPAM/9 hello\r\n\r\n")
        return False

    async def do_two_lengths(self) -> bool:
        self.writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
        return False

    async def do_short(self) -> bool:
        """Fewer bytes than it says."""
        await self.send("200 OK", f"Content-Length: {self.query.get('says', '10')}", body=b"abc", length=False)
        return False

    async def do_cut(self) -> bool:
        """A long answer that ends before it is whole."""
        await self.send("200 OK", f"Content-Length: {40 * len(PIECE)}", length=False)
        for _ in range(int(self.query.get("pieces", 30))):
            self.writer.write(PIECE)
            await self.writer.drain()
        return False

    async def do_cut_events(self) -> bool:
        await self.send("200 OK", "Content-Type: text/event-stream", "Transfer-Encoding: chunked", length=False)
        await self.chunk(b"data: 1\n\n")
        await asyncio.sleep(0.05)
        return False

    async def do_large(self) -> None:
        pieces = int(self.query.get("pieces", 32))
        await self.send("200 OK", f"Content-Length: {pieces * len(PIECE)}", length=False)
        for _ in range(pieces):
            self.writer.write(PIECE)
            await self.writer.drain()
            seen["pieces"] += 1

    async def do_events(self) -> bool | None:
        """Server-sent events, so many at such intervals; without a number, until the client leaves."""
        seen["open"] += 1
        await self.send("200 OK", "Content-Type: text/event-stream", "Transfer-Encoding: chunked", length=False)
        gone = asyncio.ensure_future(self.reader.read(1))
        count = int(self.query.get("count", 0))
        number = 0
        while not count or number < count:
            number += 1
            await self.chunk(b"data: %d\n\n" % number)
            await asyncio.wait({gone}, timeout=float(self.query.get("pause", 0.05)))
            if gone.done():
                seen["open"] -= 1
                seen["left"] += 1
                return False
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
        seen["open"] -= 1
        self.writer.write(b"0\r\nX-Trailer: dropped\r\n\r\n")
        return None

    async def do_early(self) -> bool:
        """Refuse before the body is read."""
        await self.send("413 Content Too Large", "Connection: close", body=b"no")
        return False

    async def do_hints(self) -> None:
        self.writer.write(b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n")
        await self.send("200 OK", body=b"after hints")


async def main(port: int) -> None:
    server = await asyncio.start_server(lambda *pair: Connection(*pair).serve(), "127.0.0.1", port, limit=2**20)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
