"""`python -m bench NAME [options]` runs one bench; without a name, all of them run."""

import importlib
import sys

BENCHES = {
    "quality": "bench.quality",
    "ranker": "bench.ranker",
    "speed": "bench.retrieval_speed",
    "notebook": "bench.notebook",
    "sweep": "bench.sweep",
    "fleet": "bench.fleet",
    "butlers": "bench.butlers",
    "bounds": "bench.bounds",
    "fairness": "bench.fairness",
    "daemons": "bench.daemons",
    "sessions": "bench.sessions",
    "months": "bench.months",
    "failures": "bench.failures",
    "decisions": "bench.decisions",
    "clashes": "bench.clashes",
    "laundering": "bench.laundering",
    "truth": "bench.truth",
    "authority": "bench.authority",
    "rivals": "bench.rivals",
    "secrets": "bench.secrets",
    "scaling": "bench.scaling",
}


def main() -> int:
    """Run one bench, or all; the exit code says whether every ratio held."""
    name, *options = sys.argv[1:] or [""]
    if name and name not in BENCHES:
        print(f"no bench is called {name}; there are {', '.join(BENCHES)}")
        return 2
    chosen = [name] if name else list(BENCHES)
    return max(_run(BENCHES[one], options) for one in chosen)


def _run(module: str, options: list[str]) -> int:
    print(f"\n{module}")
    return int(importlib.import_module(module).main(options))


if __name__ == "__main__":
    sys.exit(main())
