"""An answer that a program leaves in a file."""

from pathlib import Path

from butlers.llm.completion import CompletionFailed, Usage
from butlers.llm.process import MAX_OUTPUT_BYTES


def read_answer(name: str, path: Path, usage: Usage | None = None) -> str:
    """The text of the file, which must be a file, in UTF-8 and of bearable size."""
    try:
        # Anything but a plain file, a pipe for one, could keep its reader waiting.
        answer = _beginning(path) if path.is_file() else b""
    except OSError as error:
        raise CompletionFailed(f"the answer of {name} cannot be read: {error.strerror}") from None
    if len(answer) > MAX_OUTPUT_BYTES:
        limit = MAX_OUTPUT_BYTES // 1024**2
        raise CompletionFailed(f"{name} answered with more than {limit} MB", usage)
    return decoded_answer(name, answer, usage)


def decoded_answer(name: str, answer: bytes, usage: Usage | None = None) -> str:
    """The answer as text; bytes that are not UTF-8 would end up as rubbish in the memory."""
    try:
        return answer.decode("utf-8")
    except UnicodeDecodeError:
        raise CompletionFailed(f"the answer of {name} is not UTF-8 text", usage) from None


def _beginning(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(MAX_OUTPUT_BYTES + 1)
