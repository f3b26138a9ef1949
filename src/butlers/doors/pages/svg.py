"""Drawings as SVG elements: every text and attribute in them is escaped by the writer."""

from collections.abc import Sequence
from xml.etree import ElementTree

from markupsafe import Markup

from butlers.doors.pages.shown import visible

Element = ElementTree.Element


def drawing(width: float, height: float, label: str, kind: str) -> Element:
    """An empty drawing that says in words what it shows."""
    root = Element("svg", {"viewBox": f"0 0 {number(width)} {number(height)}", "class": kind})
    root.set("role", "img")
    root.set("aria-label", visible(label))
    return root


def add(parent: Element, name: str, kind: str = "", **attributes: float | str) -> Element:
    """One more element; `kind` is its class, and underscores in names stand for hyphens."""
    written = {key.replace("_", "-"): _value(value) for key, value in attributes.items()}
    child = ElementTree.SubElement(parent, name, written)
    if kind:
        child.set("class", kind)
    return child


def write(parent: Element, text: str, x: float, y: float, kind: str) -> Element:
    """Words in a drawing."""
    child = add(parent, "text", kind, x=x, y=y)
    child.text = visible(text)
    return child


def path(points: Sequence[tuple[float, float]], *, closed: bool = False) -> str:
    """Straight lines from point to point."""
    steps = "L".join(f"{number(x)} {number(y)}" for x, y in points)
    return f"M{steps}{'Z' if closed else ''}"


def finished(root: Element) -> Markup:
    """The drawing as text for a page."""
    # Safe: the writer escapes what elements and attributes hold.
    return Markup(ElementTree.tostring(root, encoding="unicode", short_empty_elements=False))  # noqa: S704


def number(value: float) -> str:
    """A coordinate, no more exact than anybody can see."""
    return f"{value:.1f}".rstrip("0").rstrip(".")


def _value(value: float | str) -> str:
    return visible(value) if isinstance(value, str) else number(value)
