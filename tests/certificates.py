"""One certificate instead of all: what a client loads when it is made, for tests that speak no TLS.

A client reads some 140 certificates each time that one is made, which takes 30 ms; the suite makes
thousands. OpenSSL's own variable names a file with one, for the processes that tests start, too.
"""

from __future__ import annotations

import atexit
import os
import tempfile
from collections.abc import Mapping

import certifi

_VARIABLE = "SSL_CERT_FILE"
_NAME = "sawlog-one-certificate-"
_END = "-----END CERTIFICATE-----\n"


def keep_to_one() -> None:
    """Name a file with one certificate to all clients from now on, unless a file is named."""
    if _VARIABLE in os.environ:
        return
    certificate, end, _ = certifi.contents().partition(_END)
    with tempfile.NamedTemporaryFile("w", prefix=_NAME, suffix=".pem", delete=False) as file:
        file.write(certificate + end)
    os.environ[_VARIABLE] = file.name
    atexit.register(_remove, file.name, os.getpid())


def _remove(path: str, owner: int) -> None:
    if os.getpid() == owner:  # a fork that ends leaves it to those who still use it
        os.unlink(path)


def with_all(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of a process that is to reach the world: without that file."""
    return {
        name: value for name, value in environ.items() if name != _VARIABLE or _NAME not in value
    }
