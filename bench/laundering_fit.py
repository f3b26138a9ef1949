"""Fit the weights of `memory/policy/repeats.toml`: whether a text says what a memory says.

Texts are the copies and innocent memories of the half `build` of the bench `laundering`, and the
owners' facts of `rivals.json` against their rivals. An answer counts by its likeliest sentence.
Prints the weights, and with each row left out in turn how many of each kind pass a threshold.

    python -m bench.laundering_fit
"""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from bench.laundering import STORE, Row, new_of, read
from butlers.embedding import get_embedding_engine
from butlers.memory.policy.repeats import compared, parts_of

_INNOCENT, _RIVAL, _PENALTY, _STEPS, _PICKS = 2.0, 0.3, 1.0, 3_000, 4
Sample = tuple[str, str, str, list[str]]
"""The row, the kind, what is known, and the texts of which one may say it."""


def samples() -> list[Sample]:
    """Every pair of a text and what it may say."""
    found: list[Sample] = []
    for row in read("build"):
        low, copies = _text(row["low"]), row["copies"]
        for kind, said in (*copies.items(), ("innocent", row["innocent"])):
            texts = parts_of(said) if isinstance(said, str) else [_text(said)]
            found.append((row["id"], kind, low, texts))
    for topic in json.loads((STORE.parent / "rivals.json").read_text("utf-8")):
        for rival in topic["rivals"][:14] if topic["half"] == "build" else ():
            found.append((topic["topic"], "rival", _text(rival), [_text(topic["owner"])]))
    return found


def _text(said: Row) -> str:
    return new_of({"kind": "fact"} | dict(said)).searchable_text


def features(every: Sequence[Sample]) -> tuple[list[str], list[Any]]:
    """The names of what is compared, and its values for each text of each sample."""
    texts = list(dict.fromkeys(t for *_, known, said in every for t in (known, *said)))
    made = dict(zip(texts, map(np.array, get_embedding_engine().embed_batch(texts)), strict=True))
    rows = [
        [compared(text, known, float(made[text] @ made[known])) for text in said]
        for *_, known, said in every
    ]
    return list(rows[0][0]), [np.array([list(map(float, r.values())) for r in row]) for row in rows]


def fit(values: Sequence[Any], is_copy: Any, weights: Any) -> Any:
    """The weights, the base last; of each sample the text that they find likeliest counts."""
    chosen = [0] * len(values)
    for _ in range(_PICKS):
        x = np.array([row[at] for row, at in zip(values, chosen, strict=True)])
        mean, spread = x.mean(0), x.std(0) + 1e-9
        z = np.c_[(x - mean) / spread, np.ones(len(x))]
        w = np.zeros(z.shape[1])
        for _ in range(_STEPS):
            error = (1 / (1 + np.exp(-z @ w)) - is_copy) * weights / weights.sum()
            w -= z.T @ error + _PENALTY * np.r_[w[:-1], 0] / len(x)
        scaled = np.r_[w[:-1] / spread, w[-1] - (w[:-1] * mean / spread).sum()]
        chosen = [int((row @ scaled[:-1]).argmax()) for row in values]
    return scaled


def main() -> None:
    """Print the weights, and what passes."""
    every = samples()
    names, values = features(every)
    kinds, rows = np.array([kind for _, kind, *_ in every]), np.array([row for row, *_ in every])
    is_copy = np.isin(kinds, ("restated", "echo", "imported")).astype(float)
    weights = np.where(kinds == "innocent", _INNOCENT, np.where(kinds == "rival", _RIVAL, 1.0))
    scaled = fit(values, is_copy, weights)
    for name, weight in zip([*names, "base"], scaled, strict=True):
        print(f"{name} = {weight:.2f}")
    scores = np.zeros(len(every))
    for row in set(rows):
        rest = np.flatnonzero(rows != row)
        left_out = fit([values[at] for at in rest], is_copy[rest], weights[rest])
        for at in np.flatnonzero(rows == row):
            scores[at] = (values[at] @ left_out[:-1]).max() + left_out[-1]
    for least in (-1.0, -0.5, 0.0, 0.5, 1.0, 1.5):
        passing = {
            kind: int((scores[kinds == kind] >= least).sum()) for kind in dict.fromkeys(kinds)
        }
        print(least, ", ".join(f"{kind} {many}" for kind, many in passing.items()))


if __name__ == "__main__":
    main()
