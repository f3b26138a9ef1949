"""The frame of every runtime that is a program: a workplace, one run in it, what the run left."""

import os
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from butlers.kernel.text import one_line, replace_surrogates
from butlers.llm.completion import Completion, RuntimeOptions, ToolServer
from butlers.llm.process import Finished, Invocation, run
from butlers.llm.redaction import Redaction

_ALWAYS = frozenset(
    {
        *("PATH", "HOME", "USER", "LANG", "LC_ALL", "LC_CTYPE", "TZ"),
        *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
        *("http_proxy", "https_proxy", "all_proxy", "no_proxy"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS"),
    }
)


_THIS_MACHINE = ("127.0.0.1", "localhost", "::1")
TOOLS = "butlers"
"""The name under which a program knows the server of its tools."""
TOKEN_VARIABLE = "BUTLERS_SESSION_TOKEN"


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked; with a schema the answer is to be JSON.

    Its directories last as long as it does: the program works in `directory`, which is empty, may
    leave temporary files in `scratch`, and is handed `files`, and hands them back there.
    """

    prompt: str
    system: str
    schema: Mapping[str, Any] | None
    label: str
    directory: Path
    files: Path
    scratch: Path

    def write(self, name: str, text: str) -> Path:
        """The path of a new file with this text."""
        path = self.files / name
        path.write_text(text, encoding="utf-8", errors="replace")
        return path

    def environment(self, names: tuple[str, ...] = (), prefix: str = "\0") -> dict[str, str]:
        """The variables its program is given: few of ours, those of the names and the prefix."""
        wanted = _ALWAYS | set(names)
        inherited = {
            name: value
            for name, value in os.environ.items()
            if name in wanted or name.startswith(prefix)
        }
        own = {"TERM": "dumb", "TMPDIR": str(self.scratch)}
        return inherited | own | {"BUTLERS_TRIGGER": one_line(self.label)}


def variables_of(tools: ToolServer | None, environment: Mapping[str, str]) -> dict[str, str]:
    """What a program needs to reach its tools, the token where no command line shows it."""
    if tools is None:
        return {}
    # They are on this machine, where a proxy has no business.
    direct = [environment.get("NO_PROXY") or environment.get("no_proxy") or "", *_THIS_MACHINE]
    exempt = ",".join(filter(None, direct))
    return {TOKEN_VARIABLE: tools.token, "NO_PROXY": exempt, "no_proxy": exempt}


class ProgramRuntime(ABC):
    """Runs a program once for each completion; each kind says how it is called and understood."""

    name: str

    def __init__(self, options: RuntimeOptions) -> None:
        self._options = options

    async def complete(
        self,
        prompt: str,
        *,
        system: str = "",
        schema: Mapping[str, Any] | None = None,
        timeout_seconds: float | None = None,
        label: str = "",
    ) -> Completion:
        """What the program answers; one time limit holds: the caller's, else the runtime's."""
        prefix = "butlers-completion-"
        with tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True) as root:
            places = [Path(root, name) for name in ("work", "files", "scratch")]
            for place in places:
                place.mkdir()
            request = Request(prompt, system, schema, label, *places)
            environment = self._environment(request)
            seconds = timeout_seconds or self._options.timeout_seconds
            invocation = Invocation(
                self.name,
                self._argv(request, environment),
                replace_surrogates(self._stdin(request)).encode(),
                request.directory,
                environment,
                seconds,
                self._options.late(self.name, seconds),
            )
            finished = await run(invocation)
            redaction = Redaction.of(environment, prompt, system)
            return self._completion(request, finished, redaction)

    async def context_tokens(self) -> int:
        """What the settings say: a program is not asked."""
        return self._options.context_tokens

    def _stdin(self, request: Request) -> str:
        """What the program reads."""
        return request.prompt

    @abstractmethod
    def _environment(self, request: Request) -> dict[str, str]:
        """Every variable the program sees."""

    @abstractmethod
    def _argv(self, request: Request, environment: Mapping[str, str]) -> Sequence[str]:
        """The program and its arguments."""

    @abstractmethod
    def _completion(self, request: Request, left: Finished, redaction: Redaction) -> Completion:
        """What the program left, understood; CompletionFailed when it is no answer."""
