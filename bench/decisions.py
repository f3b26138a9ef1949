"""What users state in passing, what their sentences are about, and which decisions become past.

`python -m bench decisions` reads `stores/statements` and `stores/decisions_changed`. With
`--unread` it also measures the parts that nobody looks at while the rules change. It needs the
model and no database, and takes seconds.
"""

import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from butlers.embedding import get_embedding_engine
from butlers.kernel.similarity import cosine_similarity_dense
from butlers.memory.model import NewRule
from butlers.memory.policy.decisions import why_past
from butlers.memory.policy.statement_keys import statement_key
from butlers.sessions.spoken import candidates, own_sentences, statements

STORES = Path(__file__).parent / "stores"
LEAST_PRECISION, LEAST_EQUAL = 0.9, 0.8


def main(options: Sequence[str]) -> int:
    """Print the figures; the exit code says whether the goals are met."""
    parts = ("dev", "unread") if "--unread" in options else ("dev",)
    return max(0 if _measure(part, shows=part == "dev") else 1 for part in parts)


def _measure(part: str, *, shows: bool) -> bool:
    met = [
        _rates(f"{part}: sentences made facts or rules", _stated(part), shows, LEAST_PRECISION),
        _equal_keys(part, shows) >= LEAST_EQUAL,
        _rates(f"{part}: decisions made past", _changed(part), shows, LEAST_PRECISION),
    ]
    return all(met)


def _rows(name: str, part: str) -> Iterator[dict[str, Any]]:
    for line in (STORES / name).read_text("utf-8").splitlines():
        if (row := json.loads(line))["part"] == part:
            yield row


def _stated(part: str) -> Iterator[tuple[str, bool, bool]]:
    """Yield each sentence with what should be made of it, and what is."""
    for row in _rows("statements/statements.jsonl", part):
        made = candidates(statements(own_sentences(row["text"])), "general", "session", {})
        kinds = ["rule" if isinstance(one, NewRule) else "fact" for one in made]
        yield row["text"], row["makes"] is not None, bool(kinds)


def _changed(part: str) -> Iterator[tuple[str, bool, bool]]:
    """Yield each pair with whether the later makes the earlier past, and is taken to."""
    engine = get_embedding_engine()
    for row in _rows("decisions_changed/cases.jsonl", part):
        earlier, later = (" ".join(row[side]["decision"]) for side in ("earlier", "later"))
        near = cosine_similarity_dense(*engine.embed_batch([earlier, later]))
        yield f"{earlier} → {later}", row["changes"], why_past(later, earlier, near) is not None


def _rates(title: str, cases: Iterator[tuple[str, bool, bool]], shows: bool, least: float) -> bool:
    counts: Counter[tuple[bool, bool]] = Counter()
    print(f"\n{title}")
    for text, wanted, taken in cases:
        counts[wanted, taken] += 1
        if shows and wanted != taken:
            print(f"  - {'not ' if wanted else 'wrongly '}taken: {text}")
    right, wrong, missed = counts[True, True], counts[False, True], counts[True, False]
    precision, recall = right / max(1, right + wrong), right / max(1, right + missed)
    print(f"  precision {precision:6.1%}  (at least {least:.0%}), {right} right, {wrong} wrong")
    print(f"  recall    {recall:6.1%}")
    return precision >= least


def _equal_keys(part: str, shows: bool) -> float:
    """Return the share of pairs about the same that get the same subject and predicate."""
    equal = []
    for row in _rows("statements/keys.jsonl", part):
        one, other = statement_key(row["one"]), statement_key(row["other"])
        same = (one.subject, one.predicate) == (other.subject, other.predicate)
        equal.append(same and not one.is_plain)
        if shows and not equal[-1]:
            print(f"  - other key: {row['one']} / {row['other']}")
    share = sum(equal) / len(equal)
    print(f"\n{part}: equal keys {share:6.1%}  (at least {LEAST_EQUAL:.0%}), of {len(equal)} pairs")
    return share


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
