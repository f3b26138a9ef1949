"""Two small convex fits, exact enough to give the same weights on every machine."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
_STEPS, _ENOUGH = 60, 1e-9


@dataclass(frozen=True)
class Example:
    """One question: its candidates' signals, which of them answer, and how much it counts."""

    signals: Numbers
    gold: Numbers
    counts: float


def fit_ranker(examples: Sequence[Example], ridge: float) -> Numbers:
    """Weights under which what answers is likeliest to be picked among the candidates."""
    scale = np.concatenate([one.signals for one in examples]).std(axis=0) + 1e-9
    weights = np.zeros(len(scale))
    loss, slope, curve = _fit_of(examples, scale, weights, ridge)
    for _ in range(_STEPS):
        step = np.linalg.solve(curve, slope)
        if np.abs(step).max() < _ENOUGH:
            break
        while (there := _fit_of(examples, scale, weights - step, ridge))[0] > loss:
            step = step / 2
            if np.abs(step).max() < _ENOUGH:
                return np.asarray(weights / scale)
        weights = weights - step
        loss, slope, curve = there
    return np.asarray(weights / scale)


def _fit_of(
    examples: Sequence[Example], scale: Numbers, weights: Numbers, ridge: float
) -> tuple[float, Numbers, Numbers]:
    """How badly the weights pick, and how that changes with them."""
    loss = ridge * float(weights @ weights)
    slope, curve = 2 * ridge * weights, 2 * ridge * np.eye(len(scale))
    for one in examples:
        signals, wanted = one.signals / scale, one.gold / one.gold.sum()
        scores = signals @ weights
        chances = np.exp(scores - scores.max())
        total = chances.sum()
        chances = chances / total
        mean = chances @ signals
        loss += one.counts * float(np.log(total) + scores.max() - wanted @ scores)
        slope = slope + one.counts * (mean - wanted @ signals)
        curve = curve + one.counts * ((signals.T * chances) @ signals - np.outer(mean, mean))
    return loss, slope, curve


def fit_answers(
    numbers: Numbers, answered: Numbers, counts: Numbers, ridge: float
) -> tuple[Numbers, float]:
    """Weights and bias of how likely a store answers."""
    centre, scale = numbers.mean(axis=0), numbers.std(axis=0) + 1e-9
    rows = np.column_stack([np.ones(len(numbers)), (numbers - centre) / scale])
    keep = np.r_[0.0, np.full(numbers.shape[1], 2 * ridge)]
    weights = np.zeros(rows.shape[1])
    for _ in range(_STEPS):
        chances = 1 / (1 + np.exp(-rows @ weights))
        slope = rows.T @ (counts * (chances - answered)) + keep * weights
        curve = (rows.T * (counts * chances * (1 - chances))) @ rows + np.diag(keep)
        step = np.linalg.solve(curve + 1e-12 * np.eye(len(weights)), slope)
        weights = weights - step
        if np.abs(step).max() < _ENOUGH:
            break
    slopes = weights[1:] / scale
    return slopes, float(weights[0] - slopes @ centre)
