"""The folders at the root are the subpackages of sawlog, in the tree and in the build alike."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tomllib
from email.parser import Parser
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parent.parent
FACE = ROOT / "src" / "sawlog"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
WHEEL = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
FOLDERS = sorted(set(WHEEL["sources"]) - {"src/sawlog"})


def test_the_build_maps_every_folder_that_it_includes() -> None:
    assert sorted(WHEEL["only-include"]) == sorted(WHEEL["sources"])


def test_the_links_are_the_folders_that_the_build_maps() -> None:
    assert sorted(path.name for path in FACE.iterdir() if path.is_symlink()) == FOLDERS
    excluded = PROJECT["tool"]["hatch"]["build"]["exclude"]
    assert sorted(excluded) == [f"/src/sawlog/{folder}" for folder in FOLDERS]


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_link_leads_to_its_folder_at_the_root(folder: str) -> None:
    link = FACE / folder
    assert link.resolve() == ROOT / folder
    assert not os.path.isabs(os.readlink(link))
    assert WHEEL["sources"][folder] == f"sawlog/{folder}"


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_is_not_importable_by_its_bare_name_in_checked_code(folder: str) -> None:
    banned = PROJECT["tool"]["ruff"]["lint"]["flake8-tidy-imports"]["banned-api"]
    assert folder in banned


def files_below(folder: Path) -> set[str]:
    """List the files below a folder that belong to the package, relative to it."""
    return {
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def build(target: str, source: Path, destination: Path) -> Path:
    """Build a wheel or an sdist as pip would, and give its path."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(destination)],
        cwd=source,
        check=True,
        stdin=subprocess.DEVNULL,
        capture_output=True,
    )
    (built,) = destination.iterdir()
    return built


def test_the_wheel_holds_every_file_of_the_folders_and_nothing_else(tmp_path: Path) -> None:
    """Data files too: a fixture that an ignore pattern hides would be missing here."""
    with ZipFile(build("wheel", ROOT, tmp_path)) as archive:
        names = set(archive.namelist())
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        fields = Parser().parsestr(archive.read(metadata).decode("utf-8"))
    info = metadata.removesuffix("METADATA")

    expected = {f"sawlog/{name}" for name in files_below(FACE) if name.split("/")[0] not in FOLDERS}
    for folder in FOLDERS:
        expected |= {f"sawlog/{folder}/{name}" for name in files_below(ROOT / folder)}
    assert {name for name in names if not name.startswith(info)} == expected
    assert "sawlog/py.typed" in names
    assert f"{info}licenses/LICENSE" in names
    assert fields["Name"] == "sawlog"
    assert fields["Author"] == "The sawlog authors"
    assert fields["License-Expression"] == "Apache-2.0"


def test_the_sdist_gives_the_same_wheel(tmp_path: Path) -> None:
    sdist = build("sdist", ROOT, tmp_path / "sdist")
    with tarfile.open(sdist) as archive:
        assert not [member.name for member in archive if member.issym() or member.islnk()]
        # Pythons before 3.11.4 do not know the filter; the archive is the one made just now.
        safe: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        archive.extractall(tmp_path / "source", **safe)
    (source,) = (tmp_path / "source").iterdir()
    direct = build("wheel", ROOT, tmp_path / "direct")
    assert build("wheel", source, tmp_path / "again").read_bytes() == direct.read_bytes()


def test_nothing_holds_dependencies_down() -> None:
    """A library that caps what it needs cannot live beside another: bounds are lower bounds."""
    groups: dict[str, list[str]] = PROJECT["project"]["optional-dependencies"]
    needed: list[str] = PROJECT["project"]["dependencies"]
    for requirement in [*needed, *groups["providers"], *groups["postgresql"]]:
        assert re.fullmatch(r"[a-z]+(\[binary\])?>=[0-9.]+", requirement.split(";")[0])
