"""Signals: what speaks for each candidate of a question, in numbers comparable across stores.

Each signal lies about between 0 and 1 within its question, so that one set of weights serves
short facts and long turns alike.
"""

from collections.abc import Mapping, Set
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from butlers.memory.candidates import CandidateColumns, Numbers
from butlers.memory.model import MemoryType
from butlers.memory.policy.question import ParsedQuestion

# From about so many different words on, a question is a message: its words tell more than its
# meaning, which is of many things at once.
_MESSAGE_WORDS, _MESSAGE_SLOPE = 15.4, 4.0
_OF_MESSAGE = ("meaning", "covered", "rarest")
_FADED_SESSIONS = 15.0
# In a small store all may be near: that one is nearer then says less.
_LEAST_RANGE = 0.4
MANY = 180
"""How many candidates have to be there for the list as a whole to tell something."""


@dataclass(frozen=True, slots=True)
class Field:
    """A question's candidates as numbers: which words each has, and how near each is."""

    weights: Numbers
    """How much each of the question's words tells, by how rare it is."""
    bare: NDArray[np.bool_]
    """Which of these words are not names."""
    impacts: Numbers
    """Word by candidate: how much of it a candidate is; 0 where it lacks the word."""
    similarity: Numbers
    bare_similarity: Numbers
    lengths: Numbers
    known: NDArray[np.bool_]
    """Which words some memory has."""
    sessions: NDArray[np.intp]
    """The number of each candidate's session; what belongs to none is one by itself."""


def field(columns: CandidateColumns) -> Field:
    """The numbers of a question's candidates."""
    header = columns.header
    bare = np.array([word in header.bare_words for word in header.words], dtype=np.bool_)
    near, bare_near = np.nan_to_num(columns.similarities), columns.bare_similarities
    numbers: dict[UUID, int] = {}
    keys = (session or own for session, own in zip(columns.session_ids, columns.ids, strict=True))
    return Field(
        header.weights,
        bare if bare.any() else np.ones(len(bare), dtype=np.bool_),
        columns.impacts,
        near,
        np.where(np.isnan(bare_near), near, bare_near),
        columns.lengths,
        np.array(header.counts) > 0,
        np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.intp),
    )


@dataclass(frozen=True, slots=True)
class Signals:
    """What speaks for each candidate, by name, and what the whole field looks like."""

    field: Field
    by_name: Mapping[str, Numbers]
    told: float
    """How much of the question asks nothing."""
    misplaced: Numbers
    """1 for a rule where the question asks what is true, not how to behave."""
    by_words: bool
    """Whether only words tell: the embedding model does not read the question's script."""


def signals(
    field: Field, columns: CandidateColumns, question: ParsedQuestion, names: Set[str]
) -> Signals:
    """Every signal of every candidate."""
    none, near = np.zeros(len(columns.ids)), field.bare_similarity
    low, high = near.min(initial=1.0), near.max(initial=-1.0)
    told, has = field.weights * field.bare, (field.impacts > 0) & field.bare[:, None]
    words, plain = field.weights @ field.impacts, told @ field.impacts
    rarest = (has * field.weights[:, None]).max(axis=0, initial=0.0)
    by_name: dict[str, Numbers] = {
        # 1 for the nearest; the farthest has 0, unless it too is near.
        "meaning": np.asarray(1 - (high - near) / max(high - low, _LEAST_RANGE)),
        "words": words / (words.max(initial=0.0) or 1.0),
        "covered": np.asarray(told @ has / (told.sum() or 1.0)),
        "rarest": rarest / (told.max(initial=0.0) or 1.0),
    }
    blend = 0.5 * by_name["meaning"] + 0.5 * plain / (plain.max(initial=0.0) or 1.0)
    seen, next_to = _around(columns, has, blend) if any(columns.places) else (has.copy(), none)
    best = none.copy()
    np.maximum.at(best, field.sessions, blend)
    when, people = question.when, question.people
    by_name |= {
        "covered_around": np.asarray(told @ seen / (told.sum() or 1.0)),
        "next_to": next_to,
        "session": best[field.sessions] * min(1.0, len(columns.ids) / MANY),
        "other_speaker": _other_speaker(columns, people, names) if people else none,
        "mentioned": np.asarray(field.impacts[~field.bare] > 0).any(axis=0) * np.ones(len(words)),
        "time": np.array([when.fits(at.date()) for at in columns.said_at]) if when else none,
        "latest": _latest(columns) if question.wants_latest else none,
    }
    odds = _MESSAGE_SLOPE * (np.log1p(field.bare.sum()) - np.log1p(_MESSAGE_WORDS))
    message = float(1 / (1 + np.exp(-odds)))
    by_name |= {f"{name}_of_message": by_name[name] * message for name in _OF_MESSAGE}
    rules = [float(question.asks_fact and kind == MemoryType.RULE) for kind in columns.kinds]
    return Signals(field, by_name, question.told, np.array(rules), question.is_read_by_words)


def _around(
    columns: CandidateColumns, has: NDArray[np.bool_], blend: Numbers
) -> tuple[NDArray[np.bool_], Numbers]:
    """Return which words stand within two places in a session, and the best blend next to each."""
    where = list(zip(columns.session_ids, columns.places, strict=True))
    numbers: dict[tuple[UUID | None, int], int] = {
        (session, place): number
        for number, (session, place) in enumerate(where)
        if session is not None and place is not None
    }
    seen, next_to = has.copy(), np.zeros(len(where))
    for step in (-2, -1, 1, 2):
        beside = [numbers.get((session, (place or 0) + step), -1) for session, place in where]
        at = np.array(beside, dtype=np.intp)
        seen |= has[:, at] & (at >= 0)
        if abs(step) == 1:
            next_to = np.maximum(next_to, np.where(at >= 0, blend[at], 0.0))
    return seen, next_to


def _other_speaker(columns: CandidateColumns, people: Set[str], names: Set[str]) -> Numbers:
    """1 for what somebody said whom the question does not name, while it names others."""
    authors = [set((author or "").lower().split()) for author in columns.authors]
    return np.array([float(bool(one & names) and not one & people) for one in authors])


def _latest(columns: CandidateColumns) -> Numbers:
    """1 for the latest session or memory, half for the fifteenth before it."""
    began = dict[UUID, datetime]()
    keys = [session or own for session, own in zip(columns.session_ids, columns.ids, strict=True)]
    for key, said in zip(keys, columns.said_at, strict=True):
        began[key] = min(began.get(key, said), said)
    order = {instant: age for age, instant in enumerate(sorted(set(began.values()), reverse=True))}
    ages = np.array([order[began[key]] for key in keys], dtype=float)
    return np.asarray(np.exp2(-ages / _FADED_SESSIONS))
