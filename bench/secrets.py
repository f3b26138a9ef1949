"""Measure how many kinds of secrets are stored whole when they stand bare in prose.

`stores/secrets/seen.jsonl`, `unseen.jsonl` and `unseen2.jsonl` hold `kind`, `shape`, `sentence`. A
shape is joined here, so that no file holds a text that looks like a key: `|` is left out, and
`<a36>` becomes 36 random characters of the alphabet `a`. No key here was ever issued. A kind is in
the half `seen` if the first byte of the SHA-256 of its name is even. Rows of `secret_kinds.toml`
may be written for kinds that are seen; the others show what happens with a format that nobody
thought of. `unseen2` came later, from providers' documentation: asked once, before any row was
written for it, 5 of 31 kinds were stored whole. Since then there are rows for kinds of both other
parts as well.

    python -m bench.secrets              # kinds stored whole, by half
    python -m bench.secrets DIRECTORY    # lines of the files below a directory that change
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
}
_DRAWN = re.compile(r"<([a-zA-Z])(\d*)>")
_SUFFIXES = {".py", ".pyi", ".js", ".ts", ".json", ".toml", ".md", ".rst", ".txt", ".sql", ".html"}
_APART = re.compile(r"lock|/tests?/|test_|_test|\.dist-info/|/locks/|sbom|conftest")


def read_half(half: str) -> list[dict[str, str]]:
    """Read the kinds of a half."""
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
    """Return the kinds of a half of which some key is stored whole."""
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
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.strip():
                result = masked(line)
                yield apart, path, line, result.kinds if result.count else None


def main() -> None:
    """Print the kinds stored whole, or with a directory the lines that change."""
    if len(sys.argv) < 2:
        for half in ("seen", "unseen", "unseen2"):
            whole, count = find_whole(half), len(read_half(half))
            print(f"{half}: {len(whole)} of {count} kinds stored whole: {', '.join(whole)}")
        return
    counts: Counter[tuple[bool, bool]] = Counter()
    for apart, path, line, kinds in find_changed_lines(Path(sys.argv[1])):
        counts[apart, kinds is not None] += 1
        if kinds is not None and not apart:
            print(f"{path.name}: {', '.join(kinds)}: {line.strip()[:200]}")
    for apart in (False, True):
        lines, changed = sum(counts[apart, each] for each in (False, True)), counts[apart, True]
        name = "lock and test files" if apart else "ordinary files"
        print(f"{name}: {changed} of {lines} lines changed ({changed / max(lines, 1):.4%})")


if __name__ == "__main__":
    main()
