"""Arguments and options that several commands take, each with one help text."""

from __future__ import annotations

from typing import Annotated

import typer

SessionName = Annotated[
    str, typer.Argument(metavar="SESSION", help="A name, an id, its beginning, or - (the newest).")
]
StepName = Annotated[
    str, typer.Argument(metavar="SESSION@STEP", help="A step of a session, such as -@3.")
]
SessionOrStep = Annotated[
    str,
    typer.Argument(
        metavar="SESSION[@STEP]",
        help="A name, an id, its beginning, or - (the newest); with @STEP one step of it.",
    ),
]

All = Annotated[bool, typer.Option("--all", help="Leave nothing out, cut nothing.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Wait = Annotated[
    str,
    typer.Option(metavar="SECONDS", help="Wait so long for a lease that nobody renews."),
]
Raw = Annotated[bool, typer.Option("--raw", help="Write the request's body, byte for byte.")]
Zones = Annotated[
    bool,
    typer.Option("--zones", help="Say how many units each zone of the packet takes, too."),
]
