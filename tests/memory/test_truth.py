"""Deletion, cascade and absence, on a part of the cases that `python -m bench truth` measures."""

from dataclasses import replace
from pathlib import Path

import pytest

from butlers.embedding import get_embedding_engine


@pytest.mark.contract("L40")
@pytest.mark.parametrize("kind", ["deletion", "cascade", "absence"])
async def test_what_does_not_hold_is_not_told(memory, kind, monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2]))
    from bench import truth

    cases, wrong = await truth.measure(replace(memory, embedder=get_embedding_engine), kind, 5)
    assert len(cases) == 8
    assert wrong == []
