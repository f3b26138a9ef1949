"""The page of numbers says what the model says, and the model keeps to what was measured."""

import copy
import importlib
import json
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def scaling(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("bench.scaling")


@pytest.fixture
def recorded(scaling: ModuleType) -> dict[str, Any]:
    return json.loads(scaling.RECORDED.read_text("utf-8"))


def planned(recorded: dict[str, Any], memories: float, per_tenant: float, load: str) -> Any:
    """The machines of a plan, after the fixture `scaling` has made the benches importable."""
    model, hardware = (importlib.import_module(f"bench.scaling_{n}") for n in ("model", "hardware"))
    assumed = tomllib.loads((ROOT / "bench/scaling.toml").read_text("utf-8"))
    plan = model.Plan(model.Measured(recorded), assumed, memories, per_tenant, load)
    return hardware.Hardware(plan)


def test_the_page_shows_the_tables_that_the_model_prints(scaling, capsys) -> None:
    page = scaling.PAGE.read_text("utf-8")
    renewed = scaling.with_tables(page, scaling.printed())
    assert renewed == page, "write them anew: python -m bench scaling --page"
    assert scaling.main(["--plan"]) == 0
    for table in capsys.readouterr().out.strip().split("\n\n"):
        assert f"\n{table}\n" in page


def test_a_page_with_too_few_tables_is_not_written(scaling) -> None:
    assert scaling.with_tables("a\n\n| x |\n\nb\n", ["| y |\n| z |"]) == "a\n\n| y |\n| z |\n\nb\n"
    with pytest.raises(ValueError, match="fewer tables"):
        scaling.with_tables("a\n\n| x |\n", ["| y |", "| z |"])


def test_a_curve_goes_through_what_was_measured_and_on_as_it_went(scaling) -> None:
    curve = importlib.import_module("bench.scaling_model").Curve([(10, 3), (100, 30), (1_000, 30)])
    assert [round(curve(size), 6) for size in (10, 20, 100, 1_000)] == [3, 6, 30, 30]
    assert curve(5) == pytest.approx(1.5)
    assert curve(1_000_000) == pytest.approx(30)


def test_the_model_is_compared_with_a_store_it_was_not_made_from(scaling, recorded) -> None:
    model = importlib.import_module("bench.scaling_model")
    figure = "PostgreSQL ms per recall"

    def guess() -> Any:
        found = model.guesses(model.Measured(recorded))
        return next(one for one in found if one.figure == figure and "tenants" not in one.store)

    before = guess()
    recorded["sizes"][max(recorded["sizes"], key=int)]["recall"]["server_ms"] *= 3
    assert (guess().said, guess().found) == (before.said, pytest.approx(before.found * 3))


def test_what_is_on_the_disk_is_foretold_within_a_tenth(scaling, recorded) -> None:
    """Bytes depend on no machine: a model that misses them is wrong."""
    model = importlib.import_module("bench.scaling_model")
    guesses = model.guesses(model.Measured(recorded))
    on_disk = [one for one in guesses if one.figure == "the same without the graph"]
    assert len(on_disk) == 2
    assert all(abs(one.error) < 0.1 for one in on_disk), on_disk


def test_more_memories_and_more_load_take_no_fewer_machines(scaling, recorded) -> None:
    loads = ("calm", "busy")
    plans = [[planned(recorded, 10.0**n, 10_000, load) for n in range(6, 11)] for load in loads]
    for row in plans:
        assert [one.databases for one in row] == sorted(one.databases for one in row)
        assert [one.month for one in row] == sorted(one.month for one in row)
        assert [one.is_one_host for one in row][0]
        assert not row[-1].is_one_host
    for calm, busy in zip(*plans, strict=True):
        assert calm.month <= busy.month
        assert calm.plan.daemons <= busy.plan.daemons


def test_no_node_of_a_plan_is_fuller_than_it_may_be(scaling, recorded) -> None:
    for memories in (1e6, 3e7, 1e8, 1e10):
        for load in ("calm", "busy"):
            assert 0 < planned(recorded, memories, 10_000, load).fullness <= 1


def test_a_figure_that_has_moved_fails_the_bench(scaling, recorded, capsys) -> None:
    assert scaling.compared(recorded, recorded) == 0
    found = copy.deepcopy(recorded)
    smallest = min(found["sizes"], key=int)
    found["sizes"][smallest]["store"]["log_bytes"] *= 1.5
    assert scaling.compared(recorded, found) == 1
    (failed,) = [one for one in capsys.readouterr().out.splitlines() if one.endswith("FAILS")]
    assert "store log_bytes" in failed
    only = {**found, "sizes": {smallest: recorded["sizes"][smallest]}}
    assert scaling.compared(recorded, only) == 0


def test_what_could_not_be_used_is_not_measured(scaling, capsys) -> None:
    for options, said in (
        (["--record", "--sizes", "1000", "10000"], "at least 3 sizes"),
        (["--record", "--tenants", "0"], "and from tenants"),
        (["--sizes", "170"], "nothing to compare with"),
        (["--sizes", "1000", "0"], "fewer than 100 facts"),
    ):
        with pytest.raises(SystemExit):
            scaling.main(options)
        assert said in capsys.readouterr().err
