"""TLS in front of the fakes, under the names of the real services, through a relay that can damage a record."""

from __future__ import annotations

import asyncio
import datetime
import ssl
from pathlib import Path

from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

NAMES = ("api.telegram.org", "api.sgroup.qq.com", "bots.qq.com", "llm.lab.test")
HIDDEN_PORT, OPEN_PORT = 8443, 443


class Tls:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.marked: set[int] = set()  # the relay's own ports whose records are damaged from now on

    def damage(self, request: web.Request) -> None:
        if request.transport:
            self.marked.add(request.transport.get_extra_info("peername")[1])

    def context(self) -> ssl.SSLContext:
        authority_key, authority = certify("lab authority", ca=True)
        key, cert = certify("lab", signer=(authority_key, authority))
        (self.folder / "lab-ca.pem").write_bytes(authority.public_bytes(serialization.Encoding.PEM))
        secret = self.folder / "lab-server.pem"
        secret.write_bytes(
            cert.public_bytes(serialization.Encoding.PEM)
            + key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(secret)
        return context

    async def relay(self) -> None:
        await asyncio.start_server(self.pass_on, "0.0.0.0", OPEN_PORT)

    async def pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", HIDDEN_PORT)
        port = inner_writer.get_extra_info("sockname")[1]
        self.marked.discard(port)

        async def copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter, back: bool) -> None:
            try:
                while data := await source.read(65536):
                    if back and port in self.marked:
                        data = data[:-4] + bytes(byte ^ 0xFF for byte in data[-4:])  # the record's MAC
                    sink.write(data)
                    await sink.drain()
            except OSError:
                pass
            finally:
                # an abort on one side must be an abort on the other, not a tidy end
                sink.transport.abort()

        await asyncio.gather(copy(reader, inner_writer, False), copy(inner_reader, writer, True))


def certify(name: str, ca: bool = False, signer=None) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    signer_key, issuer = (signer[0], signer[1].subject) if signer else (key, subject)
    now = datetime.datetime.now(datetime.UTC)
    usage = dict.fromkeys(
        (
            "content_commitment",
            "key_encipherment",
            "data_encipherment",
            "key_agreement",
            "encipher_only",
            "decipher_only",
        ),
        False,
    )
    cert = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=2))
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        .add_extension(
            x509.KeyUsage(digital_signature=True, key_cert_sign=ca, crl_sign=ca, **usage), critical=True
        )
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer_key.public_key()), critical=False
        )
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host) for host in NAMES]), critical=False)
    )
    return key, cert.sign(signer_key, hashes.SHA256())
