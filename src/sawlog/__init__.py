"""sawlog: the log of what the model saw.

Public names load on first use. Importing any part of the package runs this file first, and the
pure parts must not bring the database along.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    __version__: str

__all__ = ["__version__"]

# Public name -> the module that holds it, or the module of that name itself. Whatever is named here
# is imported above under TYPE_CHECKING, too, and listed in __all__.
_EXPORTS: dict[str, str] = {}


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version  # slow to load, and seldom asked for

        value: object = version("sawlog")
    elif name in _EXPORTS:
        module = import_module(_EXPORTS[name])
        value = module if module.__name__.endswith(f".{name}") else getattr(module, name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
