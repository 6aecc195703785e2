"""Lists and maps that grow at their end and keep every older view."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sawlog.builder.vec import Index, Vec

# Each act takes any earlier view, so lines branch wherever they can.
ACTS = st.lists(
    st.tuples(st.sampled_from(["append", "extend", "upto", "fresh"]), st.integers(0, 30),
              st.integers(0, 6)),
    max_size=40,
)  # fmt: skip


@given(acts=ACTS)
def test_a_view_never_changes_whatever_grows_from_it(acts: list[tuple[str, int, int]]) -> None:
    views: list[Vec[int]] = [Vec()]
    models: list[list[int]] = [[]]
    for at, (act, which, size) in enumerate(acts):
        view, model = views[which % len(views)], models[which % len(models)]
        more = [at * 10 + n for n in range(size)]
        if act == "append":
            made, wanted = view.append(at), [*model, at]
        elif act == "extend":
            made, wanted = view.extend(more), [*model, *more]
        elif act == "upto":
            made, wanted = view.upto(size), model[:size]
        else:
            made, wanted = Vec(model), list(model)
        views.append(made)
        models.append(wanted)
    for view, model in zip(views, models, strict=True):
        assert list(view) == model
        assert len(view) == len(model)
        assert view[:] == model and view[1:-1] == model[1:-1] and view[::-2] == model[::-2]
        assert [view[n] for n in range(len(model))] == model
        assert [view[-n - 1] for n in range(len(model))] == model[::-1]
        for start, stop in ((0, 3), (2, 100), (5, 2), (50, 60)):
            assert view.between(start, stop) == model[start:stop]
        assert view == Vec(model)
        assert bool(view) is bool(model)
    for older, first in zip(views, models, strict=True):
        for newer, second in zip(views, models, strict=True):
            if newer.grew_from(older):  # then it begins with it, without a look at the items
                assert second[: len(first)] == first


def test_the_newest_view_grows_in_place_and_an_older_one_on_a_line_of_its_own() -> None:
    one: Vec[str] = Vec("a")
    two = one.append("b")
    three = two.extend(["c", "d"])
    other = two.append("x")
    assert two.grew_from(one) and three.grew_from(one) and three.grew_from(two)
    assert not other.grew_from(two) and not two.grew_from(three)
    assert (list(three), list(other)) == (["a", "b", "c", "d"], ["a", "b", "x"])
    assert three.extend(()) is three


def test_places_beyond_the_view_are_not_there() -> None:
    one: Vec[str] = Vec("ab")
    one.append("c")
    for at in (2, 3, -3):
        with pytest.raises(IndexError):
            one[at]
    assert "c" not in one and "b" in one
    assert one.index("b") == 1


def test_a_view_is_no_key_and_equals_no_list() -> None:
    with pytest.raises(TypeError):
        hash(Vec())
    with pytest.raises(TypeError):
        hash(Index[str, int]())
    assert Vec([1]) != [1]
    assert Vec([1]) == Vec([1]) != Vec([1, 2])
    assert repr(Vec([1, 2])) == "Vec([1, 2])"


SETS = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 5)), max_size=40)


@given(sets=SETS)
def test_an_index_has_the_newest_value_of_its_own_line(sets: list[tuple[int, int]]) -> None:
    views: list[Index[str, int]] = [Index()]
    models: list[list[tuple[str, int]]] = [[]]
    for value, (which, key) in enumerate(sets):
        view, model = views[which % len(views)], models[which % len(models)]
        views.append(view.set(f"k{key}", value))
        models.append([*model, (f"k{key}", value)])
    for view, model in zip(views, models, strict=True):
        newest = dict(model)
        assert [view.get(f"k{n}") for n in range(7)] == [newest.get(f"k{n}") for n in range(7)]
        assert list(view.items()) == model
        assert len(view) == len(model)
        assert view == Index(model)


def test_threads_that_grow_one_view_get_lines_of_their_own() -> None:
    """Only one of them may grow it in place."""
    base: Vec[Any] = Vec(range(100))
    index: Index[str, int] = Index([("a", 0)])
    made: list[tuple[int, Vec[Any], Index[str, int]]] = []
    start = threading.Barrier(8)

    def grow(number: int) -> None:
        start.wait()
        view, map_ = base, index
        for n in range(300):
            view = view.append((number, n))
            map_ = map_.set(f"{n % 7}", number * 1000 + n)
        made.append((number, view, map_))

    threads = [threading.Thread(target=grow, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 8
    for number, view, map_ in made:
        assert view[:] == [*range(100), *((number, n) for n in range(300))]
        assert map_.get("6") == number * 1000 + 293
        assert map_.get("a") == 0
    assert base[:] == list(range(100))
