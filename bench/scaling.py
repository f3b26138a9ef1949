"""What memories cost, measured anew, and what millions and billions of them would take.

    python -m bench scaling [--sizes 1000 10000 50000 100000] [--tenants 100] [--keep DIRECTORY]
      [--record] | --plan | --page

Measures on fresh stores what a recall, a store, a job and a memory on the disk cost, and compares
each figure with the recorded one (`scaling.json`); `--record` writes what was found in its place.
It takes most of an hour, nearly all of it for loading; `--keep` keeps the texts' vectors for the
next time. `--plan` measures nothing and prints the tables of docs/scaling.md from what is recorded
and what `scaling.toml` assumes; `--page` writes them there, as `--record` does.
"""

import argparse
import json
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.scaling_model import Measured
from bench.scaling_tables import tables

RECORDED = Path(__file__).with_name("scaling.json")
PAGE = Path(__file__).parents[1] / "docs" / "scaling.md"
ASSUMED = Path(__file__).with_name("scaling.toml")
_TABLE = re.compile(r"(?:^\|.*\n)+", re.M)
_LEAST_SIZES, _LEAST_FACTS = 3, 100
SIZES, TENANTS = (1_000, 10_000, 50_000, 100_000), 100
# Bytes are the same anywhere, but for the images of pages; what a processor does in a millisecond
# is not, least of all on one that others use as well.
MOST_APART = {"bytes": 1.25, "ms": 2.5, "pages": 1.5}
_JUDGED = {
    "recall": {"loop_ms": "ms", "threads_ms": "ms", "server_ms": "ms", "log_bytes": "bytes"},
    "store": {"loop_ms": "ms", "server_ms": "ms", "log_bytes": "bytes", "graph_pages": "pages"},
}


def main(arguments: Sequence[str]) -> int:
    """Print tables, or measure; 1 where a figure is no longer what it was."""
    parser = argparse.ArgumentParser(prog="python -m bench scaling", description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument(
        "--tenants", type=int, default=TENANTS, help="of 1,000 facts each; 0 leaves them out"
    )
    parser.add_argument("--keep", type=Path, help="keep vectors here, for next time")
    parser.add_argument("--record", action="store_true", help="write down what is found")
    parser.add_argument("--plan", action="store_true", help="print the tables, measure nothing")
    parser.add_argument("--page", action="store_true", help="write the tables into the page")
    options = parser.parse_args(arguments)
    if options.plan:
        print(*printed(), sep="\n\n")
    if options.page:
        renew()
    if options.plan or options.page:
        return 0
    recorded = json.loads(RECORDED.read_text("utf-8"))
    if refused := _refused(options, recorded):
        parser.error(refused)
    # The product is imported only where it is measured.
    from bench.scaling_measure import measured  # noqa: PLC0415

    sizes = sorted(set(options.sizes))
    chores = options.record or sizes[-1] == Measured(recorded).sizes[-1]
    found = measured(sizes, options.tenants, options.keep, chores=chores)
    if options.record:
        RECORDED.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
        renew()
        return 0
    return compared(recorded, found)


def _refused(options: argparse.Namespace, recorded: Mapping[str, Any]) -> str:
    """Why measuring with these options would be of no use; empty where it is."""
    sizes, known = {*options.sizes}, Measured(recorded).sizes
    if min(sizes) < _LEAST_FACTS:
        return f"a store of fewer than {_LEAST_FACTS} facts says nothing of larger ones"
    if options.record and (len(sizes) < _LEAST_SIZES or not options.tenants):
        return f"the model is made from at least {_LEAST_SIZES} sizes, and from tenants"
    if not options.record and not sizes & {*known}:
        return f"recorded are the sizes {', '.join(map(str, known))}: nothing to compare with"
    return ""


def printed() -> list[str]:
    """The tables of what is recorded and assumed."""
    assumed = tomllib.loads(ASSUMED.read_text("utf-8"))
    return tables(json.loads(RECORDED.read_text("utf-8")), assumed)


def renew() -> None:
    """Write the tables into the page."""
    PAGE.write_text(with_tables(PAGE.read_text("utf-8"), printed()), "utf-8")


def with_tables(page: str, made: Sequence[str]) -> str:
    """A page with its tables replaced by others, in their order; it must have as many."""
    waiting = iter(made)
    told = _TABLE.sub(lambda _: next(waiting) + "\n", page)
    if any(True for _ in waiting):
        raise ValueError("the page has fewer tables than there are")
    return told


def compared(recorded: Mapping[str, Any], found: Mapping[str, Any]) -> int:
    """Print each figure beside the recorded one; 1 where one is further from it than may be."""
    apart = 0
    for name, kind, before, now in _pairs(Measured(recorded), Measured(found)):
        ratio = now / before
        fails = not 1 / MOST_APART[kind] <= ratio <= MOST_APART[kind]
        apart += fails
        print(f"{name:<44} {before:>12,.1f} {now:>12,.1f} {ratio:>6.2f}{' FAILS' if fails else ''}")
    return 1 if apart else 0


def _pairs(recorded: Measured, found: Measured) -> Iterator[tuple[str, str, float, float]]:
    """What both measured: the figure's name and kind, what it was, what it is."""
    for size in sorted({*recorded.sizes} & {*found.sizes}):
        yield from _of_store(f"{size:,} facts", recorded.at(size), found.at(size), size)
    then, now = (one.figures.get("crowd", {}) for one in (recorded, found))
    if then.get("tenants") == now.get("tenants") is not None:
        name, memories = f"{then['tenants']:,} tenants", then["tenants"] * then["each"]
        yield from _of_store(name, then, now, memories)
    if recorded.sizes[-1] == found.sizes[-1]:
        yield from _of_chores(recorded.figures["chores"], found.figures["chores"])


def _of_store(
    name: str, then: Mapping[str, Any], now: Mapping[str, Any], memories: int
) -> Iterator[tuple[str, str, float, float]]:
    before, after = (sum(one["relations"].values()) / memories for one in (then, now))
    yield f"{name}: bytes of each", "bytes", before, after
    for work, figures in _JUDGED.items():
        for figure, kind in figures.items():
            yield f"{name}: {work} {figure}", kind, then[work][figure], now[work][figure]


def _of_chores(
    then: Mapping[str, Any], now: Mapping[str, Any]
) -> Iterator[tuple[str, str, float, float]]:
    for job in ("consolidation", "cleanup", "fading"):
        for figure, kind in {"server_ms": "ms", "log_bytes": "bytes"}.items():
            yield f"{job}: {figure}", kind, then[job][figure], now[job][figure]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
