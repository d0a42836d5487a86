"""Credentials of one run: only their holders can connect to its scheduler and its workers.

A Dask scheduler runs any code that a client sends, and a client runs code from its scheduler, so on a machine with
other users an open port is as good as a login. Each run makes its own key, which is discarded with the run.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from papilio.errors import StoreError
from papilio.system_errors import explain

if TYPE_CHECKING:
    from distributed import Security

CERTIFICATE, KEY = "certificate.pem", "key.pem"

_ROLES = ("client", "scheduler", "worker")

_SKEW, _VALID = timedelta(days=1), timedelta(days=365)
"""The clocks of nodes may differ, by an amount that depends on the site; no run takes a year."""


def _make_pair() -> tuple[str, str]:
    """Return a self-signed certificate and its key, in PEM format.

    An elliptic curve takes under a millisecond; the RSA key of ``distributed.Security.temporary`` takes 50 to 250, and
    a node whose clock is behind rejects its certificate.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "papilio-run")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + _VALID)
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return certificate.public_bytes(serialization.Encoding.PEM).decode(), secret.decode()


def make_security() -> Security:
    """Return credentials kept in the memory of this process and of the processes that it starts with them."""
    from distributed import Security

    certificate, key = _make_pair()
    pair = {"cert": certificate, "key": key}
    fields = {f"tls_{role}_{name}": text for role in _ROLES for name, text in pair.items()}
    return Security(require_encryption=True, tls_ca_file=certificate, **fields)


def write_credentials(folder: Path) -> None:
    """Make a directory that only its owner can enter, with ``certificate.pem`` and ``key.pem``.

    StoreError if it exists already, or cannot be made.
    """
    certificate, key = _make_pair()
    try:
        folder.mkdir(mode=0o700)
        for name, text in ((CERTIFICATE, certificate), (KEY, key)):
            descriptor = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(descriptor, "w", encoding="ascii") as file:
                file.write(text)
    except OSError as error:
        raise StoreError(
            f"{folder}: cannot write credentials there "
            f"{explain(error, 'or choose a new directory inside one that you can write to')}"
        ) from error


def tls_config(folder: Path) -> dict[str, Any]:
    """Return the settings of Dask that use the credentials of :func:`write_credentials`."""
    pair = {"cert": str(folder / CERTIFICATE), "key": str(folder / KEY)}
    return {
        "distributed.comm.require-encryption": True,
        "distributed.comm.tls.ca-file": pair["cert"],
        **{f"distributed.comm.tls.{role}.{name}": path for role in _ROLES for name, path in pair.items()},
    }
