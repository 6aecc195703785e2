"""Requests that another program built: where their parts stand in the bytes, and how they are kept.

`cutting` finds the parts of a body, `spans` says a body by what the log has of it already, out of
the texts that `quoting` allows; `reading` gives the bytes back, `showing` what they say as entries.
Pure: no clock, no I/O.
"""
