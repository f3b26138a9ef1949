"""`python scripts/docs_site.py [DIRECTORY]` builds the site of the documentation (build/).

The pages are docs/, and some files of the root under another name: nothing is written twice. A
link to a file that is no page becomes a copy of that file beside the pages.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
    "CODE_OF_CONDUCT.md": "conduct.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security-policy.md",
    "bench/README.md": "benchmarks.md",
}
_LINK = re.compile(r"(\]\()([^)#:\s]+)(?=[)#])")
_LANGUAGE = re.compile(r"^```sh \w+$", re.MULTILINE)


def main() -> None:
    """Build the site into DIRECTORY/site."""
    build(Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build"))


def build(directory: Path) -> Path:
    """Gather the pages and build the site; return its directory."""
    gather(directory / "docs")
    shutil.copy(ROOT / "zensical.toml", directory)
    shutil.rmtree(directory / "site", ignore_errors=True)
    program = Path(sys.executable).with_name("zensical")
    command = [program, "build", "--strict", "--clean", "-f", "zensical.toml"]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)
    return directory / "site"


def gather(target: Path) -> None:
    """Copy every page to where the site has it, with links that lead there."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(ROOT / "docs", target)
    for source in [*map(ROOT.joinpath, PAGES), *(ROOT / "docs").rglob("*.md")]:
        page = target / place_of(source)
        page.write_text(_rewritten(source, page, target), "utf-8")


def place_of(source: Path) -> Path:
    """Return where the site has a file of the repository."""
    name = source.relative_to(ROOT)
    if name.parts[0] == "docs":
        return name.relative_to("docs")
    return Path(PAGES.get(str(name), f"files/{name}"))


def _rewritten(source: Path, page: Path, target: Path) -> str:
    def link(found: re.Match[str]) -> str:
        wanted = (source.parent / found[2]).resolve()
        if wanted.is_dir():
            wanted /= "README.md"
        copy = target / place_of(wanted)
        if not copy.exists() and "files" in place_of(wanted).parts:
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(wanted, copy)
        return found[1] + os.path.relpath(copy, page.parent)

    text = source.read_text("utf-8")
    return _LANGUAGE.sub("```sh", _LINK.sub(link, text))


if __name__ == "__main__":
    main()
