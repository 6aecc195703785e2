"""What was packed with a dictionary is read; see also `test_schema_1`."""

from __future__ import annotations

import base64

import pytest

from sawlog.store.dictionary import MOST_KEPT, NAME, Dictionary, Kept
from sawlog.store.errors import Damaged
from sawlog.store.log import Log
from tests.store.talk import talk

FOREIGN = Dictionary(
    base64.b85decode(
        "H>5D^V8$~i6A<VM9RL6T0Kkenr6f~I2?{49Qv(110DvmVrw0H41ONa401_JoJ_7&%LNEY500#>I00000006K6OaK4?"
        "vIN8e00000lo9v?00000000000000000031000C4000O8001B{Fd%PcAarPDAaHPbAYpD~Aah}PAa`hCbRcPSAZczO"
        "X>=ledm?mYcyuB<B6D<Qa3C==Hz03jAarPDaCsnMZe$>HVR;~TXkm09X>%ZHZXjuNB7J)zbY*ySB03^-bY*ZLF)}kC"
        "Z)PBLXk{@lHXv_iAarPDAaHD9ZaN@xWnp9>bZBKDW@&6?AainKFKusRb!=r{F)na<AYpD~F)%V9Z)PBLXk{R9Y+-IX"
        "AaZ44WFT~CWgup0Y-J#Ga$_%TZ)A0BWnVWgaCsnMZe$=hF(7YdAarPDAaHD9ZaN@xWnp9>bZBKDW@&6?AainKFKusR"
        "b!=r{I4*E`AYpD~AT~K5Z)PBLXk{R9Y+-IXAaZ44WFT~CWgup0Y-J#Ga$_%TZ)A0BWnVHbaCsnMZe$=eG9YheAarPD"
        "AaHD9ZaN@xWnp9>bZBKDW@&6?AainKFKusRb!=r{FfMR;AYpD~ATu=}Z)PBLXk{R9Y+-IXAaZ44WFT~CWgup0Y-J#G"
        "a$_%TZ)A0B"
    )
)
"""A dictionary that the other of the two zstd packages made, and what it packed."""
FOREIGN_ROW = bytes.fromhex(
    "80a6386aae89f7822054bd000030393030655f3505fc917f00cf6f3c6f1667df68fe2c0e"
)
FOREIGN_RAW = (
    b'{"text":"step 900 of the plan: read the file src/module_5.py and say what is in it"}'
)


def test_a_dictionary_of_either_package_is_read_and_nothing_else() -> None:
    assert FOREIGN.unpack(FOREIGN_ROW, 1000) == FOREIGN_RAW
    with pytest.raises(Damaged, match="unpack"):
        FOREIGN.unpack(FOREIGN_ROW, len(FOREIGN_RAW) - 1)
    for bad in (FOREIGN_ROW[:-1], FOREIGN_ROW + b"x", FOREIGN_ROW[:NAME], FOREIGN.name + b"none"):
        with pytest.raises(Damaged, match="unpack"):
            FOREIGN.unpack(bad, 1 << 20)
    other = Dictionary(FOREIGN.data[::-1])
    with pytest.raises(Damaged, match=f"{FOREIGN.name.hex()}.*{other.name.hex()}"):
        other.unpack(FOREIGN_ROW, 1000)


def test_few_dictionaries_are_kept_at_hand() -> None:
    kept = Kept()
    for sid in range(MOST_KEPT + 5):
        kept.put(sid, FOREIGN)
        assert kept.get(sid) is FOREIGN
    assert [sid for sid in range(MOST_KEPT + 5) if kept.get(sid) is None] == [0, 1, 2, 3, 4]


def test_an_unknown_packing_asks_for_a_newer_sawlog(log: Log) -> None:
    session = talk(log, log.session("s", create=True), 3)
    with log.database.write() as tx:
        tx.run("UPDATE sawlog.events SET codec = 9 WHERE sid = ?", (session.sid,))
    with pytest.raises(Damaged, match="codec 9.*upgrade"):
        list(log.read(session))
