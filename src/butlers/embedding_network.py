"""Run the embedding model by onnxruntime, whose import takes a quarter of a second."""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from onnxruntime import InferenceSession, SessionOptions
from tokenizers import Tokenizer

from butlers.errors import Unavailable

_THREADS = min(2, os.cpu_count() or 1)


class EmbeddingNetwork:
    """A tokenizer and a model; safe to use from several threads."""

    def __init__(self, network: Path, tokenizer: Path, max_tokens: int) -> None:
        try:
            self._tokenizer = Tokenizer.from_file(str(tokenizer))
            providers = ["CPUExecutionProvider"]
            self._session = InferenceSession(str(network), _session_options(), providers=providers)
        except Exception as error:  # Neither library raises anything narrower for a bad file.
            raise Unavailable(
                f"The embedding model at {network} with {tokenizer} cannot be loaded: {error}. "
                "Replace its files by whole ones."
            ) from error
        # The bundled file asks for 128 tokens, padded: that cuts long texts and slows short ones.
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(max_tokens)
        self._inputs = {given.name for given in self._session.get_inputs()}
        self.dimensions: object = self._session.get_outputs()[0].shape[-1]

    def tokenise(self, text: str) -> list[int]:
        """Return the ids of a text's tokens, as many as the model reads."""
        # One by one: the library's batches start threads, which warn after every fork.
        return list(self._tokenizer.encode(text).ids)

    def encode(self, token_ids: Sequence[Sequence[int]]) -> list[list[float]]:
        """Return the mean of each text's token vectors, scaled to length one."""
        shape = (len(token_ids), max(len(row) for row in token_ids))
        ids, mask = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        for row, row_ids in enumerate(token_ids):
            ids[row, : len(row_ids)] = row_ids
            mask[row, : len(row_ids)] = 1
        inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        wanted = {name: array for name, array in inputs.items() if name in self._inputs}
        hidden = self._session.run(None, wanted)[0]
        vectors: list[list[float]] = _mean_of_length_one(hidden, mask).tolist()
        return vectors


def _mean_of_length_one(
    hidden: npt.NDArray[np.float32], mask: npt.NDArray[np.int64]
) -> npt.NDArray[np.float32]:
    weights = mask[..., np.newaxis].astype(np.float32)
    means = (hidden * weights).sum(axis=1) / weights.sum(axis=1)
    lengths = np.linalg.norm(means, axis=1, keepdims=True)
    scaled: npt.NDArray[np.float32] = means / np.maximum(lengths, np.float32(1e-12))
    return scaled


def _session_options() -> SessionOptions:
    options = SessionOptions()
    options.intra_op_num_threads = _THREADS
    options.inter_op_num_threads = 1
    # Spinning threads would take the cores from the database.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    # Every batch has another shape, and each would keep a memory plan.
    options.enable_mem_pattern = False
    options.log_severity_level = 3
    return options
