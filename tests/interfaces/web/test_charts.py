"""Drawings are true to their numbers, say so in words, and hold nothing that could run."""

from datetime import UTC, date, datetime, timedelta
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from butlers.interfaces.web import charts, pictures
from butlers.interfaces.web.charts import Decay
from butlers.interfaces.web.environment import drawings
from butlers.interfaces.web.pictures import GraphNode
from butlers.memory.policy.confidence import Waning, effective_confidence

NOW = datetime(2026, 1, 10, tzinfo=UTC)
DAYS = [date(2026, 1, 1) + timedelta(days=day) for day in range(5)]
HOSTILE = '"><script>alert(1)</script>\u202e\x00'


def decay(rate: float = 0.008, days_ago: float = 10, confidence: float = 1.0) -> Decay:
    return Decay(Waning(confidence, rate, NOW - timedelta(days=days_ago)), NOW, 0.2, 0.05)


def parsed(markup: str) -> ElementTree.Element:
    return ElementTree.fromstring(markup)


def points(markup: str, kind: str) -> list[tuple[float, float]]:
    path = next(one for one in parsed(markup).iter("path") if one.get("class") == kind)
    steps = (path.get("d") or "").strip("MZ").split("L")
    return [(float(step.split()[0]), float(step.split()[1])) for step in steps]


@pytest.mark.contract("P5")
def test_a_curve_falls_as_confidence_does_and_today_lies_on_it():
    drawn = decay()
    curve = points(charts.decay_curve(drawn), "curve")
    heights = [y for _, y in curve]
    assert heights == sorted(heights) and heights[0] < heights[-1]
    today = next(one for one in parsed(charts.decay_curve(drawn)).iter("circle"))
    share = effective_confidence(1.0, 0.008, drawn.waning.confirmed_at, NOW)
    top, bottom = 10.0, 156.0
    assert float(today.get("cy") or 0) == pytest.approx(bottom - share * (bottom - top), abs=0.1)


@pytest.mark.contract("P5")
def test_a_curve_says_in_words_when_it_fades():
    label = parsed(charts.decay_spark(decay())).get("aria-label") or ""
    assert label == "confidence now 0.92, fades on 2026-07-20"
    assert "does not fade" in (parsed(charts.decay_curve(decay(rate=0.0))).get("aria-label") or "")


def test_a_memory_never_confirmed_is_drawn_at_nothing():
    never = Decay(Waning(1.0, 0.008, None), NOW, 0.2, 0.05)
    assert {y for _, y in points(charts.decay_spark(never), "curve")} == {25.0}


@given(
    rate=st.floats(0, 5),
    confidence=st.floats(0, 1),
    days=st.floats(0, 3_000),
)
def test_every_curve_stays_within_its_drawing(rate: float, confidence: float, days: float):
    drawn = Decay(Waning(confidence, rate, NOW - timedelta(days=days)), NOW, 0.2, 0.05)
    for x, y in points(charts.decay_curve(drawn), "curve"):
        assert 0 <= x <= charts.WIDTH and 0 <= y <= charts.HEIGHT


def test_areas_add_up_and_the_legend_tells_the_last_day():
    chart = charts.areas("Facts", DAYS, {"active": [1, 2, 3, 4, 6], "fading": [0, 1, 1, 2, 4]})
    assert chart.legend == (("active", 6), ("fading", 4))
    lower, upper = (points(chart.svg, f"area c-{name}") for name in ("active", "fading"))
    # The upper band's underside is the lower band's top.
    assert upper[5:] == list(reversed(lower[:5]))
    assert upper[4][1] == 10.0  # ten of ten reach the top of the plot


def test_bars_have_the_height_of_their_counts():
    chart = charts.bars(
        "Outcomes", DAYS, {"consolidated": [0, 2, 0, 0, 1], "failed": [0, 2, 0, 0, 0]}
    )
    bars = [one for one in parsed(chart.svg).iter("rect")]
    heights = [float(one.get("height") or 0) for one in bars]
    assert len(bars) == 3 and heights[0] == heights[1] == pytest.approx(2 * heights[2], abs=0.2)
    assert chart.legend == (("consolidated", 3), ("failed", 2))


@pytest.mark.parametrize("days", [[], DAYS[:1]])
def test_no_days_and_one_day_can_be_drawn(days: list[date]):
    series = {"active": [3] * len(days)}
    for chart in (charts.areas("a", days, series), charts.bars("b", days, series)):
        assert parsed(chart.svg).tag == "svg"


def test_a_histogram_counts_what_it_is_given():
    chart = charts.histogram("Retrievals", [("5 ms", 0), ("10 ms", 3), ("25 ms", 1)])
    assert chart.legend == (("retrievals", 4),)
    assert "up to 10 ms: 3" in (parsed(chart.svg).get("aria-label") or "")
    assert charts.histogram("Retrievals", []).legend == (("retrievals", 0),)


def test_a_graph_shows_each_neighbour_and_links_only_by_address():
    before = [
        GraphNode("episode", "A talk", "drawn from", "/e/1"),
        GraphNode("episode", "gone", "drawn from"),
    ]
    drawn = parsed(
        pictures.draw_graph(
            before, GraphNode("this", "Tea"), [GraphNode("fact", "Juice", "r", "/f/2")]
        )
    )
    assert [one.get("href") for one in drawn.iter("a")] == ["/e/1", "/f/2"]
    assert "Tea" in "".join(drawn.itertext())
    assert len([one for one in drawn.iter("path") if one.get("class") == "edge"]) == 3


def test_a_graph_of_many_draws_a_few():
    many = [GraphNode("fact", str(number), "replaced", f"/f/{number}") for number in range(40)]
    drawn = parsed(pictures.draw_graph(many, GraphNode("this", "x"), many))
    assert len(list(drawn.iter("a"))) == 2 * pictures.SHOWN


@pytest.mark.contract("P5")
def test_hostile_words_in_a_drawing_stay_words():
    drawn_ones = [
        pictures.draw_graph(
            [GraphNode("fact", HOSTILE, HOSTILE, "/f/1")], GraphNode("this", HOSTILE), []
        ),
        drawings.meter(0.5, HOSTILE),
        charts.histogram(HOSTILE, [(HOSTILE, 1)]).svg,
    ]
    for drawn in drawn_ones:
        tags = {one.tag for one in parsed(drawn).iter()}
        assert tags <= {"svg", "a", "g", "rect", "path", "line", "text", "circle"}
        assert "\u202e" not in drawn and "\x00" not in drawn
        assert "style" not in {key for one in parsed(drawn).iter() for key in one.attrib}


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_meter_is_never_fuller_than_full(share: float):
    part = list(parsed(drawings.meter(share, "x")).iter("rect"))[1]
    assert 0 <= float(part.get("width") or 0) <= 72
