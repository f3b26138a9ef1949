"""Where a memory comes from and what became of it, as a small graph from left to right."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from butlers.interfaces.web.presented import cut
from butlers.interfaces.web.svg import Element, add, drawing, finished, write

SHOWN = 5
"""The most neighbours drawn on one side; the page lists them all."""

_BOX, _HIGH, _GAP, _APART = 170.0, 46.0, 14.0, 74.0
_WORDS = 24


@dataclass(frozen=True, slots=True)
class GraphNode:
    """A memory in the graph; without an address it cannot be opened."""

    kind: str
    words: str
    relation: str = ""
    address: str = ""


def provenance(before: Sequence[GraphNode], this: GraphNode, after: Sequence[GraphNode]) -> Markup:
    """What a memory came from and replaced, the memory, and what replaced it."""
    columns = [column for column in (before[:SHOWN], [this], after[:SHOWN]) if column]
    height = max(len(column) for column in columns) * (_HIGH + _GAP) + _GAP
    width = len(columns) * _BOX + (len(columns) - 1) * _APART + 4
    root = drawing(width, height, _in_words(before, after), "graph")
    root.set("width", f"{width:g}")
    # Not one picture but several links, so that each can be reached and read.
    root.set("role", "group")
    centres = [_column(root, place, column, height) for place, column in enumerate(columns)]
    own = next(place for place, column in enumerate(columns) if column == [this])
    _joined(root, own, centres, before, after)
    return finished(root)


def _column(root: Element, place: int, nodes: Sequence[GraphNode], height: float) -> list[float]:
    """Draw nodes below each other; where the middle of each is."""
    taken = len(nodes) * (_HIGH + _GAP) - _GAP
    first = (height - taken) / 2
    tops = [first + at * (_HIGH + _GAP) for at in range(len(nodes))]
    for top, node in zip(tops, nodes, strict=True):
        _box(root, 2 + place * (_BOX + _APART), top, node)
    return [top + _HIGH / 2 for top in tops]


def _box(root: Element, x: float, y: float, node: GraphNode) -> None:
    holder = add(root, "a", "node", href=node.address) if node.address else add(root, "g", "node")
    add(holder, "rect", f"box k-{node.kind}", x=x, y=y, width=_BOX, height=_HIGH, rx=6)
    write(holder, node.kind, x + 10, y + 17, "kind")
    write(holder, cut(node.words, _WORDS), x + 10, y + 35, "words")


def _joined(
    root: Element,
    own: int,
    centres: Sequence[Sequence[float]],
    before: Sequence[GraphNode],
    after: Sequence[GraphNode],
) -> None:
    middle = centres[own][0]
    if before:
        x = 2 + _BOX
        for y, node in zip(centres[own - 1], before, strict=False):
            _arrow(root, (x, y), (x + _APART, middle), node.relation)
    if after:
        x = 2 + own * (_BOX + _APART) + _BOX
        for y, node in zip(centres[own + 1], after, strict=False):
            _arrow(root, (x, middle), (x + _APART, y), node.relation)


def _arrow(root: Element, start: tuple[float, float], end: tuple[float, float], word: str) -> None:
    (x1, y1), (x2, y2) = start, end
    bend = (x1 + x2) / 2
    line = f"M{x1:g} {y1:g}C{bend:g} {y1:g} {bend:g} {y2:g} {x2 - 6:g} {y2:g}"
    add(root, "path", "edge", d=line)
    add(root, "path", "tip", d=f"M{x2:g} {y2:g}l-8 -4v8Z")
    write(root, word, bend, (y1 + y2) / 2 - 5, "relation middle")


def _in_words(before: Sequence[GraphNode], after: Sequence[GraphNode]) -> str:
    came = ", ".join(f"{node.relation} {node.kind}" for node in before) or "nothing on record"
    went = ", ".join(node.kind for node in after)
    return f"Came from: {came}" + (f"; replaced by: {went}" if went else "")
