"""Measure how many kinds of secrets are stored whole when they stand bare in prose.

`stores/secrets/*.jsonl` hold `kind`, `shape`, `sentence` and, where a shape was taken from or
checked against documentation, `source`. A shape is joined here, so that no file holds a text that
looks like a key: `|` is left out, and `<a36>` becomes 36 random characters of the alphabet `a`. No
key here was ever issued. `stores/README.md` says which kinds the rules were written for, and what
was stored whole of the others at the first look.

    python -m bench secrets              # kinds stored whole, by part
    python -m bench secrets DIRECTORY    # lines of the files below a directory that change

Of a `.jsonl` file each line is a memory, of which the `text` is masked.
"""

import json
import random
import re
import string
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from butlers.kernel.secrets import masked

STORE = Path(__file__).parent / "stores" / "secrets"
DRAWS = 3
"""How many keys are drawn for each kind; it counts as stored whole if one of them is."""
_HEX = "0123456789abcdef"
_ALPHABETS = {
    "a": string.ascii_letters + string.digits,
    "m": string.ascii_letters,
    "l": string.ascii_lowercase + string.digits,
    "u": string.ascii_uppercase + string.digits,
    "h": _HEX,
    "H": _HEX.upper(),
    "b": string.ascii_letters + string.digits + "+/",
    "w": string.ascii_letters + string.digits + "-_",
    "d": string.digits,
    "c": "".join(sorted({*string.ascii_letters, *string.digits} - set("0OIl"))),
    "e": string.ascii_lowercase + "234567",
    "B": string.ascii_uppercase + "234567",
    "r": "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L",
    "n": string.ascii_letters + string.digits + "_",
    "P": "|",
}
_DRAWN = re.compile(r"<([a-zA-Z])(\d*)>")
_SUFFIXES = {
    *(".py", ".pyi", ".js", ".mjs", ".cjs", ".jsx", ".ts", ".tsx", ".json", ".toml", ".yml"),
    *(".md", ".rst", ".txt", ".sql", ".html", ".yaml", ".jsonl"),
}
_APART = re.compile(
    r"lock|/tests?/|test_|_test|\.dist-info/|/locks/|sbom|conftest|\.test\.|\.min\."
)


def read_half(half: str) -> list[dict[str, str]]:
    """Read the kinds of a part."""
    lines = (STORE / f"{half}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def draw_key(shape: str, seed: str) -> str:
    """Draw a key of a shape, the same one for the same seed."""
    draws = random.Random(seed)

    def drawn(match: re.Match[str]) -> str:
        if match[1] == "U":
            lengths = (8, 4, 4, 4, 12)
            return "-".join("".join(draws.choices(_HEX, k=length)) for length in lengths)
        # A real key does not begin or end with a sign, which would belong to the sentence.
        inner = draws.choices(_ALPHABETS[match[1]], k=int(match[2]))
        return "".join("x" if sign in "-_+/" and at in (0, len(inner) - 1) else sign
                       for at, sign in enumerate(inner))  # fmt: skip

    return _DRAWN.sub(drawn, shape.replace("|", ""))


def find_whole(half: str) -> list[str]:
    """Return the kinds of a part of which some key is stored whole."""
    whole = []
    for row in read_half(half):
        for draw in range(DRAWS):
            key = draw_key(row["shape"], f"{row['kind']} {draw}")
            if key in masked(row["sentence"].replace("%s", key)).text:
                whole.append(row["kind"])
                break
    return whole


def find_changed_lines(directory: Path) -> Iterator[tuple[bool, Path, str, tuple[str, ...] | None]]:
    """Yield the lines below a directory, whether of a lock or test file, and the kinds found."""
    for path in sorted(directory.rglob("*")):
        if path.suffix not in _SUFFIXES or not path.is_file():
            continue
        apart = _APART.search(str(path.relative_to(directory))) is not None
        is_memory = path.suffix == ".jsonl"
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.strip():
                result = masked(json.loads(line).get("text", "") if is_memory else line)
                yield apart, path, line, result.kinds if result.count else None


PARTS = ("seen", "unseen", "unseen2", "unseen3", "unseen4")
MOST_WHOLE = 0.05
"""The largest share of the kinds of a part that may be stored whole."""


def main(options: list[str]) -> int:
    """Print the kinds stored whole, or with a directory the lines that change."""
    if options:
        _print_changed(Path(options[0]))
        return 0
    worst = 0.0
    for part in PARTS:
        whole, count = find_whole(part), len(read_half(part))
        print(f"{part}: {len(whole)} of {count} kinds stored whole: {', '.join(whole)}")
        worst = max(worst, len(whole) / count)
    return int(worst > MOST_WHOLE)


def _print_changed(directory: Path) -> None:
    counts: Counter[tuple[bool, bool]] = Counter()
    for apart, path, line, kinds in find_changed_lines(directory):
        counts[apart, kinds is not None] += 1
        if kinds is not None and not apart:
            print(f"{path.name}: {', '.join(kinds)}: {line.strip()[:200]}")
    for apart in (False, True):
        lines, changed = sum(counts[apart, each] for each in (False, True)), counts[apart, True]
        name = "lock and test files" if apart else "ordinary files"
        print(f"{name}: {changed} of {lines} lines changed ({changed / max(lines, 1):.4%})")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
