"""How often somebody may do something: a bucket each, which fills as time passes."""

_MOST_KNOWN = 10_000


class Rates:
    """Buckets by name; one that is empty says how long until it holds enough again."""

    def __init__(self, per_minute: int) -> None:
        self._most = float(per_minute)
        self._per_second = per_minute / 60
        self._known: dict[str, tuple[float, float]] = {}

    def take(self, name: str, now: float) -> float:
        """Take one; 0.0 when there was one, else the seconds until there is."""
        left, at = self._known.get(name, (self._most, now))
        left = min(self._most, left + (now - at) * self._per_second)
        if left < 1:
            return (1 - left) / self._per_second
        if len(self._known) >= _MOST_KNOWN:
            self._forget_full(now)
        self._known[name] = (left - 1, now)
        return 0.0

    def _forget_full(self, now: float) -> None:
        """One that has filled up since is like one that nobody knew."""
        self._known = {name: one for name, one in self._known.items() if now - one[1] < 60}
