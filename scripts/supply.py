"""`python scripts/supply.py` writes what the pinned versions are made of.

From `constraints.txt` and the index that pip asks: `locks/`, the sha256 of every wheel of each
pinned version for the platforms we support, and `sbom.cdx.json`, a CycloneDX list of all parts
with their licences and hashes. Run it, in an environment with the tests' tools, after a version
has changed.
"""

import io
import json
import re
import tomllib
import urllib.request
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from email.message import Message
from email.parser import HeaderParser
from importlib import metadata
from itertools import product
from pathlib import Path
from urllib.parse import urljoin

from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename
from pip._internal.models.index import PyPI

from butlers import __version__
from butlers.embedding import MODEL
from butlers.embedding_files import BUNDLED_SHA256

ROOT = Path(__file__).parent.parent
BUILD = ("hatchling", "editables")
_LINK = re.compile(r'href="([^"#]+/([^"/#]+))#sha256=([0-9a-f]{64})')
_PLATFORM = re.compile(r"any|manylinux.*_(x86_64|aarch64)|macosx_.*_(x86_64|arm64|universal2)")
_UNSAID = {"axe-playwright-python": "MIT"}
"""Licences that a version carries in its files, but not in what it says of itself."""
_PYTHONS = range(11, 15)


@dataclass(frozen=True)
class File:
    """One file of a version, where the index has it."""

    name: str
    url: str
    sha256: str


@dataclass(frozen=True)
class Part:
    """A pinned version, and its files that we may install."""

    name: str
    version: str
    files: tuple[File, ...]


def main() -> None:
    """Write all of it."""
    parts = [_part(name, version) for name, version in pins().items()]
    run = closure([*_required(), *map(Requirement, BUILD)])
    dev = closure(_required("dev")) - run
    chosen = {"run": run, "dev": dev, "more": {part.name for part in parts} - run - dev}
    (ROOT / "locks").mkdir(exist_ok=True)
    for name, names in chosen.items():
        lock = "".join(_locked(part) for part in parts if part.name in names)
        (ROOT / "locks" / f"{name}.txt").write_text(lock)
    sbom = json.dumps(_sbom(parts, run), indent=1, ensure_ascii=False)
    (ROOT / "sbom.cdx.json").write_text(sbom + "\n")


def pins() -> dict[str, str]:
    """The pinned versions by name."""
    lines = (ROOT / "constraints.txt").read_text().split()
    return {canonicalize_name(name): version for name, version in (x.split("==") for x in lines)}


def _required(extra: str = "") -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = project["optional-dependencies"][extra] if extra else project["dependencies"]
    return [Requirement(one) for one in asked]


def closure(asked: Iterable[Requirement]) -> set[str]:
    """What these need of the pinned, on any platform and Python that we support."""
    waiting, known, found = list(asked), pins(), set[tuple[str, str]]()
    while waiting:
        one = waiting.pop()
        name = canonicalize_name(one.name)
        wanted = {(name, extra) for extra in ("", *one.extras)} - found
        if name in known:
            found |= wanted
            waiting += [each for _, extra in wanted for each in _requires(name, extra)]
    return {name for name, _ in found}


def _requires(name: str, extra: str) -> list[Requirement]:
    try:
        told = [Requirement(one) for one in metadata.requires(name) or ()]
    except metadata.PackageNotFoundError:
        return []
    return [one for one in told if one.marker is None or _may_apply(one.marker, extra)]


def _may_apply(marker: Marker, extra: str) -> bool:
    places = product(_PYTHONS, ("linux", "darwin"), ("x86_64", "aarch64", "arm64"))
    return any(
        marker.evaluate(
            {
                "python_version": f"3.{minor}",
                "python_full_version": f"3.{minor}.0",
                "sys_platform": system,
                "platform_system": system.title(),
                "platform_machine": machine,
                "extra": extra,
            }
        )
        for minor, system, machine in places
    )


def _part(name: str, version: str) -> Part:
    files = [one for one in _files(name) if _is_of(one.name, version)]
    wheels = [one for one in files if one.name.endswith(".whl")]
    return Part(name, version, tuple(wheels or files))


def _files(name: str) -> list[File]:
    page = f"{PyPI.simple_url}/{name}/"
    text = _fetched(page).decode()
    return [File(found[2], urljoin(page, found[1]), found[3]) for found in _LINK.finditer(text)]


def _fetched(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=60) as answer:
        return bytes(answer.read())


def _is_of(file: str, version: str) -> bool:
    """Whether a file is of this version, and for a platform and a Python that we support."""
    if file.endswith(".tar.gz"):
        return file.removesuffix(".tar.gz").endswith(f"-{version}")
    if not file.endswith(".whl") or f"-{version}-" not in file:
        return False
    *_, tags = parse_wheel_filename(file)
    return any(map(_is_supported, tags))


def _is_supported(tag: object) -> bool:
    python, abi, platform = str(tag).split("-")
    if _PLATFORM.fullmatch(platform) is None:
        return False
    if python in ("py3", "cp3") or abi == "abi3":
        return True
    return abi in ("none", python) and python in [f"cp3{minor}" for minor in _PYTHONS]


def _locked(part: Part) -> str:
    hashes = sorted(f"--hash=sha256:{one.sha256}" for one in part.files)
    return " \\\n    ".join([f"{part.name}=={part.version}", *hashes]) + "\n"


def _sbom(parts: Sequence[Part], run: set[str]) -> dict[str, object]:
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": _product()},
        "components": [*(_component(part, part.name in run) for part in parts), _model()],
    }


def _product() -> dict[str, object]:
    return {
        "type": "application",
        "name": "butlers",
        "version": __version__,
        "licenses": [{"license": {"id": "Apache-2.0"}}],
    }


def _component(part: Part, is_run: bool) -> dict[str, object]:
    address = f"pkg:pypi/{part.name}@{part.version}"
    return {
        "type": "library",
        "bom-ref": address,
        "name": part.name,
        "version": part.version,
        "purl": address,
        "scope": "required" if is_run else "excluded",
        "licenses": _licences(_described(part)),
        "externalReferences": [
            {
                "type": "distribution",
                "url": f"{address}?file_name={one.name}",
                "hashes": [{"alg": "SHA-256", "content": one.sha256}],
            }
            for one in sorted(part.files, key=lambda one: one.name)
        ],
    }


def _described(part: Part) -> Mapping[str, str] | Message:
    """What a version says of itself: as installed, else in its wheel."""
    try:
        return metadata.metadata(part.name)
    except metadata.PackageNotFoundError:
        return HeaderParser().parsestr(_inside(part.files[0]))


def _inside(wheel: File) -> str:
    with zipfile.ZipFile(io.BytesIO(_fetched(wheel.url))) as archive:
        (name,) = [one for one in archive.namelist() if one.endswith(".dist-info/METADATA")]
        return archive.read(name).decode()


def _licences(told: Mapping[str, str] | Message) -> list[object]:
    expression = told.get("License-Expression")
    if expression:
        return [{"expression": expression}]
    classified = [one.rsplit(" :: ", 1)[-1] for one in _all(told, "Classifier") if "License" in one]
    named = (told.get("License") or "").strip().splitlines()
    chosen = named[0] if named and len(named[0]) < 60 else " and ".join(classified)
    return [{"license": {"name": chosen or _UNSAID[told["Name"]]}}]


def _all(told: Mapping[str, str] | Message, name: str) -> list[str]:
    return list(told.get_all(name) or ()) if isinstance(told, Message) else []


def _model() -> dict[str, object]:
    """The weights of the embedding model, which come in a package of their own."""
    return {
        "type": "machine-learning-model",
        "bom-ref": f"model:{MODEL}",
        "name": MODEL,
        "licenses": [{"license": {"id": "Apache-2.0"}}],
        "components": [
            {"type": "file", "name": name, "hashes": [{"alg": "SHA-256", "content": digest}]}
            for name, digest in BUNDLED_SHA256.items()
        ],
    }


if __name__ == "__main__":
    main()
