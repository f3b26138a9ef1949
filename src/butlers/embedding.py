"""Sentence embeddings by all-MiniLM-L6-v2, computed locally without the network."""

import asyncio
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from butlers.embedding_files import BUNDLED_SHA256, bundled_files, fingerprint, local_files
from butlers.errors import Unavailable
from butlers.kernel import text as kernel_text
from butlers.kernel.throttle import FairQueue

if TYPE_CHECKING:
    from onnxruntime import SessionOptions

MODEL = "all-MiniLM-L6-v2"
DIMENSIONS = 384
MAX_TOKENS = 256
"""How much of a text the model reads."""

# Larger batches get no faster, cost memory for good, and keep other tenants waiting for longer.
_TOKENS_PER_BATCH = MAX_TOKENS
# More than MAX_TOKENS of any real text, so that a long one is not tokenised whole.
_MAX_CHARACTERS = 16_384
# The same question goes to every butler of a fleet, and again for the next page.
_RECENT = 64

# Tokens of a text that waits for no longer one; characters tokenised while a token is encoded.
_SHORT, _CHARACTERS_PER_TOKEN = 64, 16
# One worker for each: the runtime itself uses all cores for a call.
_LANES = {
    name: (ThreadPoolExecutor(1, f"embedding-{name}"), FairQueue()) for name in ("short", "long")
}
_THREADS = min(2, os.cpu_count() or 1)

T = TypeVar("T")
_Batch = dict[int, list[int]]
"""Token ids of texts of similar length, by the position of each text."""
_Vectors = dict[int, list[float]]


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
        self.model = model_directory.resolve().name if model_directory else MODEL
        self._directory = model_directory
        self._network: _Network | None = None
        self._loading = threading.Lock()
        self._recent: dict[str | None, list[float]] = {}

    @cached_property
    def version(self) -> str:
        """Return a fingerprint of weights and tokenizer."""
        if self._directory is None:
            return fingerprint(BUNDLED_SHA256)
        return fingerprint({path.name: sha for path, sha in local_files(self._directory).items()})

    def embed(self, text: str | None) -> list[float]:
        """Embed one text; an empty one, or None, is embedded as a single space."""
        return self.embed_batch([text])[0]

    def embed_batch(self, texts: Sequence[str | None]) -> list[list[float]]:
        """Embed texts, in their order."""
        if not texts:
            return []
        network, vectors = self._network or self._loaded(), dict[int, list[float]]()
        for batch in network.batches([network.tokenize(text) for text in texts]):
            vectors |= network.encode(batch)
        return [vectors[position] for position in range(len(texts))]

    async def embed_async(self, text: str | None) -> list[float]:
        """Embed one text on an embedding thread; recent texts are cached, and wait for nobody."""
        encode = partial(self._encode_once, text)
        return list(self._recent.get(text) or (await self.embed_batch_async([text], encode))[0])

    async def embed_batch_async(
        self, texts: Sequence[str | None], encode: Callable[[_Batch], _Vectors] | None = None
    ) -> list[list[float]]:
        """Embed texts on the embedding threads, which tenants share by time between batches."""
        if not texts:
            return []
        vectors: _Vectors = {}
        network = await _worked(MAX_TOKENS, self._loaded) if not self._network else self._network
        sizes = [len(text or "") // _CHARACTERS_PER_TOKEN for text in texts]
        given = zip(sizes, texts, strict=True)
        token_ids = [await _worked(size, network.tokenize, text) for size, text in given]
        for batch in network.batches(token_ids):
            size = len(batch) * max(map(len, batch.values()))
            vectors |= await _worked(size, encode or network.encode, batch)
        return [vectors[position] for position in range(len(texts))]

    def _encode_once(self, text: str | None, batch: _Batch) -> _Vectors:
        """Encode a text unless another caller asked for it meanwhile."""
        vector = self._recent.get(text) or self._loaded().encode(batch)[0]
        self._recent[text] = vector
        for oldest in list(self._recent)[:-_RECENT]:
            self._recent.pop(oldest, None)
        return {0: vector}

    def _loaded(self) -> "_Network":
        with self._loading:
            if self._network is None:
                self._network = _load(self._directory)
            return self._network


async def _worked(tokens: int, work: Callable[..., T], *given: object) -> T:
    """Run something on the thread for texts of a length when it is the tenant's turn."""
    worker, turns = _LANES["short" if tokens <= _SHORT else "long"]
    async with turns.turn():
        return await asyncio.get_running_loop().run_in_executor(worker, work, *given)


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


def _load(directory: Path | None) -> "_Network":
    weights, *_, tokenizer = bundled_files() if directory is None else local_files(directory)
    network = _Network(weights, tokenizer)
    if network.dimensions != DIMENSIONS:
        raise Unavailable(
            f"The embedding model at {weights} gives {network.dimensions} dimensions; "
            f"the database holds vectors of {DIMENSIONS}. Choose a model of that size."
        )
    return network


class _Network:
    """A tokenizer and a model; safe to use from several threads."""

    def __init__(self, weights: Path, tokenizer: Path) -> None:
        # Imported late: the runtime takes a quarter of a second.
        from onnxruntime import InferenceSession  # noqa: PLC0415
        from tokenizers import Tokenizer  # noqa: PLC0415

        try:
            self._tokenizer = Tokenizer.from_file(str(tokenizer))
            providers = ["CPUExecutionProvider"]
            self._session = InferenceSession(str(weights), _session_options(), providers=providers)
        except Exception as error:  # Neither library raises anything narrower for a bad file.
            raise Unavailable(
                f"The embedding model at {weights} with {tokenizer} cannot be loaded: {error}. "
                "Replace its files by whole ones."
            ) from error
        # The bundled file asks for 128 tokens, padded: that cuts long texts and slows short ones.
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(MAX_TOKENS)
        self._inputs = {given.name for given in self._session.get_inputs()}
        self.dimensions: object = self._session.get_outputs()[0].shape[-1]

    def tokenize(self, text: str | None) -> list[int]:
        """Return the token ids of one text: the library's batches start threads."""
        cleaned = kernel_text.clean((text or "")[:_MAX_CHARACTERS])
        return list(self._tokenizer.encode(cleaned if cleaned.strip() else " ").ids)

    def batches(self, token_ids: Sequence[list[int]]) -> list[_Batch]:
        """Group texts from short to long, within the tokens of a batch."""
        batches: list[_Batch] = [{}]
        for position, ids in sorted(enumerate(token_ids), key=lambda text: len(text[1])):
            if (len(batches[-1]) + 1) * len(ids) > _TOKENS_PER_BATCH:
                batches.append({})
            batches[-1][position] = ids
        return batches

    def encode(self, batch: _Batch) -> _Vectors:
        """Return the mean of each text's token vectors, scaled to length one."""
        import numpy as np  # noqa: PLC0415

        shape = (len(batch), max(map(len, batch.values())))
        ids, mask = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        for row, row_ids in enumerate(batch.values()):
            ids[row, : len(row_ids)] = row_ids
            mask[row, : len(row_ids)] = 1
        inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        wanted = {name: array for name, array in inputs.items() if name in self._inputs}
        hidden = self._session.run(None, wanted)[0]
        weights = mask[..., np.newaxis].astype(np.float32)
        means = (hidden * weights).sum(axis=1) / weights.sum(axis=1)
        lengths = np.linalg.norm(means, axis=1, keepdims=True)
        scaled = means / np.maximum(lengths, np.float32(1e-12))
        return dict(zip(batch, scaled.tolist(), strict=True))


def _session_options() -> "SessionOptions":
    from onnxruntime import SessionOptions  # noqa: PLC0415

    options = SessionOptions()
    options.intra_op_num_threads = _THREADS
    options.inter_op_num_threads = 1
    # Spinning threads would take the cores from the database.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    # Every batch has another shape, and each would keep a memory plan.
    options.enable_mem_pattern = False
    options.log_severity_level = 3
    return options
