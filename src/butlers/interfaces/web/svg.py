"""Build SVG drawings; the XML writer escapes every text and attribute."""

from collections.abc import Sequence
from xml.etree import ElementTree

from markupsafe import Markup

from butlers.interfaces.web.formatting import visible

Element = ElementTree.Element


def drawing(width: float, height: float, label: str, kind: str) -> Element:
    """Start a drawing with a label for screen readers."""
    root = Element("svg", {"viewBox": f"0 0 {number(width)} {number(height)}", "class": kind})
    root.set("role", "img")
    root.set("aria-label", visible(label))
    return root


def add(parent: Element, name: str, kind: str = "", **attributes: float | str) -> Element:
    """Add an element; `kind` is its class, and underscores in names become hyphens."""
    written = {key.replace("_", "-"): _value(value) for key, value in attributes.items()}
    if kind:
        written["class"] = kind
    return ElementTree.SubElement(parent, name, written)


def write(parent: Element, text: str, x: float, y: float, kind: str) -> Element:
    """Add text."""
    child = add(parent, "text", kind, x=x, y=y)
    child.text = visible(text)
    return child


def path(points: Sequence[tuple[float, float]], *, closed: bool = False) -> str:
    """Make a path of straight lines."""
    steps = "L".join(f"{number(x)} {number(y)}" for x, y in points)
    return f"M{steps}{'Z' if closed else ''}"


def finished(root: Element) -> Markup:
    """Serialize the drawing for a page."""
    # Safe: the writer escapes what elements and attributes hold.
    return Markup(ElementTree.tostring(root, encoding="unicode", short_empty_elements=False))  # noqa: S704


def number(value: float) -> str:
    """Format a coordinate with one decimal."""
    return f"{value:.1f}".rstrip("0").rstrip(".")


def _value(value: float | str) -> str:
    return visible(value) if isinstance(value, str) else number(value)


def meter(share: float, label: str) -> Markup:
    """Draw a bar filled to a share between 0 and 1."""
    root = drawing(72, 8, f"{label} {share:.2f}", "meter")
    add(root, "rect", "track", x=0, y=0, width=72, height=8, rx=4)
    add(root, "rect", "part", x=0, y=0, width=72 * min(1.0, max(0.0, share)), height=8, rx=4)
    return finished(root)


def swatch(name: str) -> Markup:
    """Draw the legend colour of a name."""
    root = drawing(10, 10, name, "swatch")
    del root.attrib["role"], root.attrib["aria-label"]
    root.set("aria-hidden", "true")
    add(root, "rect", f"c-{name}", x=0, y=0, width=10, height=10, rx=2)
    return finished(root)
