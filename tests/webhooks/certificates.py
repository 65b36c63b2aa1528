"""A certificate authority made for one test, and servers' certificates under it (X.509 written in DER by hand)."""

import ssl
from base64 import encodebytes
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from Crypto.Hash import SHA256
from Crypto.PublicKey import ECC
from Crypto.Signature import DSS
from Crypto.Util.asn1 import DerBitString, DerBoolean, DerInteger, DerObjectId, DerOctetString, DerSequence

_ECDSA_WITH_SHA256 = "1.2.840.10045.4.3.2"
_COMMON_NAME = "2.5.4.3"
_ALTERNATIVE_NAMES = "2.5.29.17"
_CONSTRAINTS = "2.5.29.19"


class Authority:
    """Signs certificates for host names; `trust()` is a client that believes nobody else."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ECC.generate(curve="P-256")
        constraint = _extension(_CONSTRAINTS, _sequence(DerBoolean(True).encode()), is_critical=True)
        self.pem = _pem(_certificate("authority", self._key, [constraint], self._key))

    def server(self, host: str) -> ssl.SSLContext:
        """What a server needs to be `host`."""
        key = ECC.generate(curve="P-256")
        names = _sequence(bytes([0x82, len(host)]) + host.encode())
        certificate = _certificate(host, key, [_extension(_ALTERNATIVE_NAMES, names)], self._key)
        file = self._folder / f"{host}.pem"
        file.write_text(f"{key.export_key(format='PEM')}\n{_pem(certificate)}")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        return context

    def trust(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(cadata=self.pem)
        return context


def _certificate(subject: str, key: Any, extensions: list[bytes], signing_key: Any) -> bytes:
    algorithm = _sequence(DerObjectId(_ECDSA_WITH_SHA256).encode())
    now = datetime.now(UTC)
    contents = _sequence(
        b"\xa0\x03\x02\x01\x02",  # version 3
        DerInteger(int.from_bytes(SHA256.new(subject.encode()).digest()[:8]) | 1).encode(),
        algorithm,
        _name("authority"),
        _sequence(_moment(now - timedelta(hours=1)), _moment(now + timedelta(hours=1))),
        _name(subject),
        key.public_key().export_key(format="DER"),
        _tagged(0xA3, _sequence(*extensions)),
    )
    signature = DSS.new(signing_key, "fips-186-3", encoding="der").sign(SHA256.new(contents))
    return _sequence(contents, algorithm, DerBitString(signature).encode())


def _sequence(*parts: bytes) -> bytes:
    return DerSequence(list(parts)).encode()


def _name(text: str) -> bytes:
    attribute = _sequence(DerObjectId(_COMMON_NAME).encode(), _tagged(0x0C, text.encode()))
    return _sequence(_tagged(0x31, attribute))


def _extension(oid: str, value: bytes, *, is_critical: bool = False) -> bytes:
    critical = [DerBoolean(True).encode()] if is_critical else []
    return _sequence(DerObjectId(oid).encode(), *critical, DerOctetString(value).encode())


def _moment(moment: datetime) -> bytes:
    return _tagged(0x17, moment.strftime("%y%m%d%H%M%SZ").encode())


def _tagged(tag: int, content: bytes) -> bytes:
    assert len(content) < 0x80 or tag == 0xA3
    if len(content) < 0x80:
        return bytes([tag, len(content)]) + content
    length = len(content).to_bytes(2, "big")
    return bytes([tag, 0x82]) + length + content


def _pem(der: bytes) -> str:
    return f"-----BEGIN CERTIFICATE-----\n{encodebytes(der).decode()}-----END CERTIFICATE-----\n"
