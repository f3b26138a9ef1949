"""The benches are run by hand: that what they use is still there is seen here."""

import importlib
import pkgutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BENCHES = [found.name for found in pkgutil.iter_modules([str(ROOT / "bench")])]


@pytest.mark.parametrize("name", BENCHES)
def test_a_bench_can_be_begun(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    assert importlib.import_module(f"bench.{name}").__doc__
