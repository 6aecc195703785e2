"""A proxy in front of models: it passes requests on as they are, and records each exchange.

Whatever a program is written in, and whichever client it uses, a base URL is all that it is told.
`upstreams` says where requests may go, `wire` speaks HTTP to the client, `passing` hands one
exchange through, `keeping` writes the log off the loop, `server` is all of it, `running` runs a
command behind it.
"""

from __future__ import annotations

from importlib.util import find_spec

from sawlog.store.errors import ConfigError


def check_installed() -> None:
    """Raise ConfigError, naming the extra, when a package that the proxy stands on is missing."""
    for package in ("h11", "httpx"):
        if find_spec(package) is None:
            raise ConfigError(
                f"the proxy needs {package}, which is not installed: pip install 'sawlog[proxy]'"
            )
