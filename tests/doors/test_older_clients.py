"""The README's ways to use sawlog, with the newest official clients and with the last on `httpx`.

The older ones are installed into a folder of this run's own, and a child process uses them.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn

import pytest

from tests.certificates import with_all
from tests.doors.older_forms import APIS, FORMS, README

OLDER = ("openai==2.54.0", "anthropic==0.125.0")
"""The last releases that stand on `httpx`; those after them stand on `httpx2`."""

forms = pytest.mark.parametrize("form", FORMS)
apis = pytest.mark.parametrize("api", APIS)


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all workers of this run have in common."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(scope="session")
def newest(shared: Path) -> dict[str, Any]:
    """What comes of each form with the clients that are installed here."""
    return once(shared / "newest-clients")


@pytest.fixture(scope="session")
def older(shared: Path) -> dict[str, Any]:
    """The same with the older ones; skips where they cannot be installed."""
    return once(shared / "older-clients", *OLDER)


def once(folder: Path, *wanted: str) -> dict[str, Any]:
    """Run all forms with these packages, or with what is here; the first worker does it for all."""
    folder.mkdir(exist_ok=True)
    out = folder / "found.json"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not out.exists():
            environment = dict(os.environ)
            if wanted:
                environment["PYTHONPATH"] = str(installed(folder, *wanted))
            command = [sys.executable, "-m", "tests.doors.older_forms", str(folder), str(out)]
            done = subprocess.run(
                command, cwd=README.parent, env=environment, capture_output=True, timeout=300
            )
            assert done.returncode == 0, done.stderr.decode()
    found: dict[str, Any] = json.loads(out.read_text())
    return found


def installed(folder: Path, *wanted: str) -> Path:
    """A folder with these packages and what they stand on; skips where pip does not get them."""
    target, why = folder / "site", folder / "skipped"
    if why.exists():
        skip(why.read_text())
    if not target.exists():
        fresh = folder / "fresh"
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        # One that is offline shall say so soon.
        patience = ["--retries", "1", "--timeout", "10", "--no-warn-conflicts"]
        try:
            done = subprocess.run(
                [*command, *patience, "--target", str(fresh), *wanted],
                capture_output=True,
                text=True,
                timeout=240,
                env=with_all(os.environ),
            )
            said = done.stderr.strip().splitlines() if done.returncode else []
        except subprocess.TimeoutExpired:
            said = ["it took longer than four minutes"]
        if said:
            why.write_text(said[-1])
            skip(said[-1])
        fresh.rename(target)
    return target


def skip(why: str) -> NoReturn:
    pytest.skip(f"pip cannot install {' and '.join(OLDER)} here: {why}")


def holds(found: dict[str, Any], form: str, api: str) -> None:
    """Every body that arrived is the packet of its step, and the log verifies."""
    came = found[f"{form} {api}"]
    assert "error" not in came, came["error"]
    assert came == {
        # `recording` sends one more when it is over, which nobody records.
        "received": FORMS[form][2] + (form == "recording"),
        "statuses": [200],
        "alike": True,
        "sent": ["exact"],
        "sound": True,
    }


@forms
@apis
def test_with_the_newest_clients_each_body_that_arrives_is_in_the_log(
    newest: dict[str, Any], form: str, api: str
) -> None:
    assert newest["library"] == "httpx2"
    holds(newest, form, api)


@forms
@apis
def test_with_the_last_clients_on_httpx_each_body_that_arrives_is_in_the_log(
    older: dict[str, Any], form: str, api: str
) -> None:
    named = f"openai=={older['openai']}", f"anthropic=={older['anthropic']}"
    assert (named, older["library"]) == (OLDER, "httpx")
    holds(older, form, api)
