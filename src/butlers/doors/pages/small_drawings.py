"""Drawings as small as a word: a share of a whole, a colour of a legend."""

from markupsafe import Markup

from butlers.doors.pages.svg import add, drawing, finished


def meter(share: float, label: str) -> Markup:
    """A bar filled to a share between 0 and 1; what it measures stands beside it as a number."""
    root = drawing(72, 8, f"{label} {share:.2f}", "meter")
    add(root, "rect", "track", x=0, y=0, width=72, height=8, rx=4)
    add(root, "rect", "part", x=0, y=0, width=72 * min(1.0, max(0.0, share)), height=8, rx=4)
    return finished(root)


def swatch(name: str) -> Markup:
    """The colour that stands for a name in a plot."""
    root = drawing(10, 10, name, "swatch")
    del root.attrib["role"], root.attrib["aria-label"]
    root.set("aria-hidden", "true")
    add(root, "rect", f"c-{name}", x=0, y=0, width=10, height=10, rx=2)
    return finished(root)
