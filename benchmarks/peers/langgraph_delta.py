"""LangGraph with the channel of differences, which its authors call a beta."""

from __future__ import annotations

from benchmarks.peers import langgraph

PACKAGES = langgraph.PACKAGES


class Driver(langgraph.Driver):
    """Writes are stored, and the whole list at every hundredth."""

    delta = True
    seeds_history = True
