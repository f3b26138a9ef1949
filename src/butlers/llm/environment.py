"""What a runtime's process gets to see of the world: a few variables and directories of its own."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from butlers.kernel.text import one_line
from butlers.llm.completion import CompletionFailed, RuntimeOptions

_ALWAYS = frozenset(
    {
        *("PATH", "HOME", "USER", "LANG", "LC_ALL", "LC_CTYPE", "TZ"),
        *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
        *("http_proxy", "https_proxy", "all_proxy", "no_proxy"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS"),
    }
)


@dataclass(frozen=True, slots=True)
class Workplace:
    """Directories that last as long as one completion."""

    directory: Path
    """Where the process works; empty."""
    files: Path
    """What is handed to the process and back."""
    scratch: Path
    """Where the process may leave temporary files."""

    def write(self, name: str, text: str) -> Path:
        """The path of a new file with this text."""
        path = self.files / name
        path.write_text(text, encoding="utf-8", errors="replace")
        return path


@contextmanager
def workplace() -> Iterator[Workplace]:
    """A private workplace, removed with everything in it."""
    prefix = "butlers-completion-"
    with tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True) as root:
        place = Workplace(*(Path(root, name) for name in ("work", "files", "scratch")))
        for directory in (place.directory, place.files, place.scratch):
            directory.mkdir()
        yield place


def api_key(options: RuntimeOptions) -> str:
    """The key that the options name, or "" when they name none."""
    if not options.api_key_env:
        return ""
    key = os.environ.get(options.api_key_env, "").strip()
    if not key:
        raise CompletionFailed(
            f"the environment variable {options.api_key_env}, which runtime.api_key_env names, "
            "is not set; set it for the daemon, or empty runtime.api_key_env"
        )
    return key


def minimal_environment(
    place: Workplace, label: str, names: tuple[str, ...] = (), prefix: str = "\0"
) -> dict[str, str]:
    """The variables a process is given: few of ours, those of the names and of the prefix."""
    wanted = _ALWAYS | set(names)
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name in wanted or name.startswith(prefix)
    }
    own = {"TERM": "dumb", "TMPDIR": str(place.scratch), "BUTLERS_TRIGGER": one_line(label)}
    return inherited | own
