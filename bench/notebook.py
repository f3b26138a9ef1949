"""How fast the notebook is: search against a bare FTS5 query, recall against the table.

Run: PYTHONPATH=src python bench/notebook.py [sizes...]
"""

import itertools
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from butlers.notebook import MemoryManager, Notebook, fast_search, open_notebook, store, terms
from butlers.notebook.categories import categorize
from butlers.notebook.matching import match_any
from butlers.notebook.tokenizer import query_terms, term_counts

Action = Callable[[], object]

SIZES = (1_000, 10_000, 100_000)
AGENT = "bench/agent"
SEARCH_RATIO = 3.0
# Asking SQLite whether anybody committed is most of what a cached recall costs.
RECALL_RATIO = 5.0
QUERIES = 60
ROUNDS = 7
VOCABULARY = 20_000
# What anybody would write without this product: the same notes, by the same relevance.
BARE = """
    select m.id, m.key, m.content from memory_fts f
    join memory_documents d on d.number = f.rowid join agent_memories m on m.id = d.memory_id
    where memory_fts match ? and m.agent_id = ? order by rank limit 10
"""


@dataclass(frozen=True)
class Times:
    """Seconds of processor time, each for one query or one recall."""

    bare: float
    search: float
    cold: float
    table: float
    cached: float

    def missed(self) -> list[str]:
        """What is slower than promised."""
        found = {
            "search": self.search <= SEARCH_RATIO * self.bare,
            "cold search": self.cold <= SEARCH_RATIO * self.bare,
            "recall": self.table >= RECALL_RATIO * self.cached,
        }
        return [name for name, holds in found.items() if not holds]

    def line(self, size: int) -> str:
        """One row of the table."""
        ratios = (self.search / self.bare, self.cold / self.bare, self.table / self.cached)
        return (
            f"{size:>8} {_us(self.bare)} {_us(self.search)} {ratios[0]:>6.2f} {_us(self.cold)}"
            f" {ratios[1]:>6.2f} {_us(self.table)} {_us(self.cached)} {ratios[2]:>6.1f}"
        )


def main(options: list[str]) -> int:
    """Print one line per size; fail where a search or a recall misses its ratio."""
    print("Processor time, best round. A cold search has forgotten every document frequency, as")
    print("after each write; the ratios of both searches are to the bare query.")
    print(
        f"{'notes':>8} {'bare FTS5':>10} {'search':>10} {'ratio':>6} {'cold':>10} {'ratio':>6}",
        end="",
    )
    print(f" {'table':>10} {'cached':>10} {'ratio':>6}")
    missed = []
    for size in [int(size) for size in options] or SIZES:
        times = _measure(size)
        print(times.line(size), flush=True)
        missed += [f"{name} at {size}" for name in times.missed()]
    print(f"missed: {', '.join(missed)}" if missed else "every ratio holds")
    return 1 if missed else 0


def _measure(size: int) -> Times:
    with tempfile.TemporaryDirectory() as folder:
        db = open_notebook(Path(folder) / "notebook.db")
        try:
            manager = MemoryManager(db)
            _fill(db, size)
            return Times(*_search_times(db), *_recall_times(manager, size))
        finally:
            db.close()


def _fill(db: Notebook, size: int) -> None:
    """The notes as a save leaves them, without the cross references no search reads."""
    rng = random.Random(7)
    words = _words(rng)
    with db.sqlite.transaction():
        for number in range(size):
            key, content = _key(number), " ".join(itertools.islice(words, 24))
            memory = store.upsert(db, AGENT, key, content)
            terms.count_terms(db, memory.id, term_counts(key, content))
            store.set_category(db, memory.id, categorize(key, content))


def _key(number: int) -> str:
    return f"topic{number % 50}:{number}"


def _words(rng: random.Random) -> Iterator[str]:
    """Words as frequent as in language: the n-th as often as 1/n."""
    weights = list(itertools.accumulate(1 / (n + 3) for n in range(VOCABULARY)))
    vocabulary = [f"w{n:05d}" for n in range(VOCABULARY)]
    while True:
        yield from rng.choices(vocabulary, cum_weights=weights, k=1_000)


def _search_times(db: Notebook) -> tuple[float, ...]:
    rng = random.Random(11)
    words = _words(rng)
    queries = [" ".join(itertools.islice(words, 4)) for _ in range(QUERIES)]
    expressions = [match_any(query_terms(query)) for query in queries]
    connection = db.sqlite.connection
    bare = [lambda e=e: connection.execute(BARE, (e, AGENT)).fetchall() for e in expressions]
    ours = [lambda q=q: fast_search(db, AGENT, q) for q in queries]
    cold = [lambda q=q: (db.frequencies.clear(), fast_search(db, AGENT, q)) for q in queries]
    return _interleaved(bare, ours, cold)


def _recall_times(manager: MemoryManager, size: int) -> tuple[float, float]:
    rng = random.Random(13)
    keys = [_key(number) for number in rng.sample(range(size), 200)]
    recalls = [lambda k=k: manager.recall(AGENT, k) for k in keys]
    table, cached = [], []
    for _ in range(ROUNDS):
        manager.clear_cache()
        table.append(_cpu(recalls))
        cached.append(_cpu(recalls * 5))
    return min(table), min(cached)


def _interleaved(*sides: list[Action]) -> tuple[float, ...]:
    """The best round of each side; turn by turn, so that a busy machine troubles all alike."""
    rounds = [[_cpu(side) for side in sides] for _ in range(ROUNDS)]
    return tuple(min(times) for times in zip(*rounds, strict=True))


def _cpu(actions: list[Action]) -> float:
    """The processor time of one action, on average: what others do on the machine is not in it."""
    start = time.thread_time()
    for action in actions:
        action()
    return (time.thread_time() - start) / len(actions)


def _us(seconds: float) -> str:
    return f"{seconds * 1e6:>8.1f}us"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
