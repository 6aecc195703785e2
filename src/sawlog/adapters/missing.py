"""What is said where a framework's package is not installed."""

from __future__ import annotations

from sawlog.store.errors import ConfigError


def missing(package: str, extra: str) -> ConfigError:
    """The error for a package that cannot be imported; it names the extra that brings it."""
    return ConfigError(f"the package {package} is not installed: pip install 'sawlog[{extra}]'")
