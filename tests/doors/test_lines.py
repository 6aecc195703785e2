"""Reading within bounds: what is kept, what is refused, what is reported."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from sawlog.formats.lines import BOUNDS, Bounds, Line, Lines, read_document
from sawlog.formats.times import moment
from sawlog.store.envelope import UNKNOWN_TIME
from sawlog.store.errors import TooLarge, UnknownFormat
from sawlog.store.jsonslices import elements, fields, object_of, source_at
from tests.fresh import PEAK


def read(path: Path, bounds: Bounds = BOUNDS) -> tuple[list[Line], list[str]]:
    lines = Lines(path, bounds)
    return list(lines), lines.anomalies


def write(tmp_path: Path, content: bytes) -> Path:
    path = tmp_path / "file.jsonl"
    path.write_bytes(content)
    return path


def test_records_have_places_digests_and_text(tmp_path: Path) -> None:
    path = write(tmp_path, b'{"a": 1}\n\n {"b":"\xc3\xa9"} \r\n')
    records, anomalies = read(path)
    assert [(r.position, r.number, r.text, r.value) for r in records] == [
        (0, 1, '{"a": 1}', {"a": 1}),
        (1, 3, '{"b":"é"}', {"b": "é"}),
    ]
    assert records[1].digest == hashlib.sha256(b'{"b":"\xc3\xa9"}').hexdigest()
    assert anomalies == []


def test_last_record_needs_no_newline(tmp_path: Path) -> None:
    records, anomalies = read(write(tmp_path, b'{"a":1}\n{"b":2}'))
    assert len(records) == 2
    assert anomalies == []


def test_glued_objects_are_two_records(tmp_path: Path) -> None:
    records, anomalies = read(write(tmp_path, b'{"a":1}{"b":2} {"c":3}\n{"d":4}\n'))
    assert [r.text for r in records] == ['{"a":1}', '{"b":2}', '{"c":3}', '{"d":4}']
    assert [r.position for r in records] == [0, 1, 2, 3]
    assert records[1].digest == hashlib.sha256(b'{"b":2}').hexdigest()
    assert anomalies == ["line 1: 3 objects on one line"]


@pytest.mark.parametrize("tail", [b'{"b":', b'{"b":2', b"{", b"12", b'{"b":"\xe2\x82'])
def test_torn_tail_is_reported_and_not_given(tmp_path: Path, tail: bytes) -> None:
    records, anomalies = read(write(tmp_path, b'{"a":1}\n' + tail))
    assert [r.text for r in records] == ['{"a":1}']
    assert len(anomalies) == 1
    assert f"line 2: torn tail of {len(tail)} bytes" in anomalies[0]


def test_bad_line_in_the_middle_is_kept(tmp_path: Path) -> None:
    records, anomalies = read(write(tmp_path, b'{"a":1}\n{"b":"\\q"}\n{"c":3}\n'))
    assert [r.value for r in records] == [{"a": 1}, None, {"c": 3}]
    assert records[1].text == '{"b":"\\q"}'
    assert anomalies == ["line 2: no JSON object, kept as it is"]


def test_every_cut_gives_a_prefix(tmp_path: Path) -> None:
    whole = b'{"a":1}{"b":"\xf0\x9f\x98\x80"}\n{"x":\n[1]\n{"c":{"d":"}"}} {"e":5}{"f"\n{"g":7}\n'
    records, _ = read(write(tmp_path, whole))
    assert len(records) == 8
    for cut in range(7, len(whole)):
        some, _ = read(write(tmp_path, whole[:cut]))
        assert [(r.position, r.digest) for r in some] == [
            (r.position, r.digest) for r in records[: len(some)]
        ], cut


def test_lone_surrogates_and_odd_numbers_are_read(tmp_path: Path) -> None:
    path = write(tmp_path, b'{"a":"\\ud800","b":1e999,"c":' + b"9" * 5000 + b"}\n")
    records, anomalies = read(path)
    assert records[0].value is not None
    assert records[0].value["a"] == "\ud800"
    assert anomalies == []


def test_not_a_number_is_no_json(tmp_path: Path) -> None:
    records, _ = read(write(tmp_path, b'{"a":NaN}\n{"b":2}\n'))
    assert [r.value for r in records] == [None, {"b": 2}]


def test_bytes_that_are_no_utf8_keep_their_digest(tmp_path: Path) -> None:
    records, anomalies = read(write(tmp_path, b'{"a":"\xff\xf0\x9f\x98\x80"}\n{"b":2}\n'))
    assert records[0].digest == hashlib.sha256(b'{"a":"\xff\xf0\x9f\x98\x80"}').hexdigest()
    assert records[0].value == {"a": "\udcff😀"}
    assert anomalies == ["line 1: bytes that are no UTF-8"]


def test_byte_order_mark_is_no_part_of_a_record(tmp_path: Path) -> None:
    records, _ = read(write(tmp_path, b'\xef\xbb\xbf{"a":1}\n'))
    assert records[0].digest == hashlib.sha256(b'{"a":1}').hexdigest()


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "it is empty"),
        (b"\n \n", "no whole record"),
        (b"\x7fELF\x02\x01\x01\x00\x00", "binary"),
        (b'\x00\x00{"a":1}\n', "binary"),
        (b'{"a":', "no whole record"),
        (b"[1,2]\n[3]\n", "no whole record"),
        (b"hello\nworld\n", "no whole record"),
        (b"\xff\xfe{\x00", "binary"),
        (b"word\n" * 1000 + b'{"a":1}\n', "first 100 lines"),
        (b"SQLite format 3\x00", "an SQLite database"),
    ],
)
def test_no_transcript_is_one_sentence(tmp_path: Path, content: bytes, why: str) -> None:
    path = write(tmp_path, content)
    with pytest.raises(UnknownFormat, match=why) as caught:
        read(path)
    assert caught.value.path == str(path)
    assert "\n" not in str(caught.value)
    with pytest.raises(UnknownFormat):
        read_document(path) if content[:1] != b"[" else read(path)


def test_zip_renamed(tmp_path: Path) -> None:
    path = tmp_path / "file.jsonl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.txt", "text")
    with pytest.raises(UnknownFormat, match="a zip archive"):
        read(path)


def test_brackets_that_nest_too_deep(tmp_path: Path) -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    path = write(tmp_path, b'{"a":1}\n{"b":' + deep + b"}\n")
    with pytest.raises(TooLarge, match="line 2 nests deeper than 200") as caught:
        read(path)
    assert caught.value.line == 2
    with pytest.raises(TooLarge, match="nests deeper"):
        read_document(write(tmp_path, deep))


def test_brackets_never_closed(tmp_path: Path) -> None:
    with pytest.raises(TooLarge, match="nests deeper"):
        read(write(tmp_path, b'{"a":1}\n' + b"{" * 100_000))


def test_brackets_in_strings_do_not_nest(tmp_path: Path) -> None:
    text = json.dumps({"a": "[" * 1000 + '"' + "\\" + "{" * 1000, "b": [[[]]]}).encode()
    records, anomalies = read(write(tmp_path, text + b'\n{"torn":"' + b"[" * 500 + b"\\"))
    assert len(records) == 1
    assert "torn tail" in anomalies[0]


def test_bounds_of_nesting_are_exact(tmp_path: Path) -> None:
    bounds = Bounds(nesting=5)
    read(write(tmp_path, b'{"a":[[[[]]]]}\n'), bounds)
    with pytest.raises(TooLarge):
        read(write(tmp_path, b'{"a":[[[[[]]]]]}\n'), bounds)


def test_too_many_values(tmp_path: Path) -> None:
    path = write(tmp_path, b'{"a":[' + b"0," * 3_000 + b"0]}\n")
    with pytest.raises(TooLarge, match="line 1 holds more than 1,000 values"):
        read(path, Bounds(values=1_000))
    deep_after = b'{"a":[' + b"0," * 3_000 + b"[" * 300 + b"]" * 300 + b"]}\n"
    with pytest.raises(TooLarge, match="nests deeper"):
        read(write(tmp_path, deep_after), Bounds(values=10_000))


def test_too_many_records(tmp_path: Path) -> None:
    with pytest.raises(TooLarge, match="line 4 is past the bound of 3 records"):
        read(write(tmp_path, b"{}\n" * 5), Bounds(records=3))


def test_line_bound_is_exact(tmp_path: Path) -> None:
    line = b'{"a":"' + b"x" * 92 + b'"}'
    assert len(line) == 100
    for end in (b"\n", b"\r\n", b""):
        records, _ = read(write(tmp_path, line + end), Bounds(line=100))
        assert len(records) == 1
    with pytest.raises(TooLarge, match="line 1 is longer than 99 bytes"):
        read(write(tmp_path, line + b"\n"), Bounds(line=99))


@pytest.mark.parametrize("fill", ["x", "\\0"])
def test_a_line_of_a_gigabyte_is_refused_in_bounded_memory(tmp_path: Path, fill: str) -> None:
    path = tmp_path / "huge.jsonl"
    with path.open("wb") as file:
        file.write(b'{"a":1}\n{"b":"')
        if fill == "\\0":
            file.truncate(1024**3)  # sparse: zero bytes after a first whole line
        else:
            for _ in range(1024):
                file.write(fill.encode() * 1024**2)
    program = (
        f"{PEAK}\nimport sys, pathlib\n"
        "from sawlog.formats.lines import Lines, TooLarge\n"
        "try: list(Lines(pathlib.Path(sys.argv[1])))\n"
        "except TooLarge as error: print(error.line)\n"
        "except Exception as error: print(type(error).__name__)\n"
        "print(peak())\n"
    )
    out = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True
    ).stdout.split()
    # Zero bytes already in the first lines make it a binary file.
    assert out[0] == ("UnknownFormat" if fill == "\\0" else "2")
    unit = 1 if sys.platform == "darwin" else 1024
    assert int(out[1]) * unit < 500 * 1024**2


def test_document(tmp_path: Path) -> None:
    document = read_document(write(tmp_path, b'\xef\xbb\xbf [{"a": "\\ud800"}]\n'))
    assert document.text == '[{"a": "\\ud800"}]'
    assert document.value == [{"a": "\ud800"}]


@pytest.mark.parametrize(
    ("content", "why"), [(b'[{"a":1}', "cut or is no JSON"), (b"[1] [2]", "more text follows")]
)
def test_document_that_is_cut(tmp_path: Path, content: bytes, why: str) -> None:
    with pytest.raises(UnknownFormat, match=why):
        read_document(write(tmp_path, content))


def test_document_bound(tmp_path: Path) -> None:
    with pytest.raises(TooLarge, match="longer than 10 bytes"):
        read_document(write(tmp_path, b'{"a":"xxxxxxxx"}'), Bounds(line=10))


SOURCE = '{ "z" : -0.0 ,"a":[1, {"k" : 1e2}, "\\u00e9"],"big":12345678901234567890123, "a2":"x" }'


@pytest.mark.parametrize("surrogate", ["", ', "s":"\\ud800"'])
def test_sources_are_exact_slices(surrogate: str) -> None:
    text = SOURCE[:-2] + surrogate + " }"
    found = fields(text)
    assert found["z"] == "-0.0"
    assert found["a"] == '[1, {"k" : 1e2}, "\\u00e9"]'
    assert found["big"] == "12345678901234567890123"
    assert elements(found["a"]) == ["1", '{"k" : 1e2}', '"\\u00e9"']
    assert source_at(text, "a", 1, "k") == "1e2"
    assert source_at(text, "a", 7) is None
    assert source_at(text, "b") is None


def test_sources_with_lone_surrogates_in_keys() -> None:
    text = '{"\\ud800": [ ], "b":{} , "c": ["\\udc00" , 1,[2]]}'
    assert fields(text) == {"\ud800": "[ ]", "b": "{}", "c": '["\\udc00" , 1,[2]]'}
    assert elements('["\udc00", "\\ud800" ]') == ['"\udc00"', '"\\ud800"']
    assert elements(" [ ] ") == []
    assert fields(" { } ") == {}


@pytest.mark.parametrize("text", ["[", "1", '{"a"', '{"a":1', '{"a":1 2}', "{1:2}"])
def test_sources_of_no_object(text: str) -> None:
    with pytest.raises(ValueError):
        fields(text)
    with pytest.raises(ValueError):
        elements(text)


def test_object_of_sources() -> None:
    assert object_of({"a": "-0.0", 'q"': "[1, 2]"}) == '{"a":-0.0,"q\\"":[1, 2]}'


def test_moments() -> None:
    assert moment("1970-01-01T00:00:01.500Z") == 1_500_000
    assert moment("1970-01-01T01:00:00.000001+01:00") == 1
    assert moment("1970-01-01T00:00:01") == UNKNOWN_TIME
    for odd in (None, 5, "", "yesterday", "{{ts}}"):
        assert moment(odd) == UNKNOWN_TIME
