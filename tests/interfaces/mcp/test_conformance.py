"""The protocol's own conformance suite, against a daemon and a butler made for its test tools."""

import os
import re
import subprocess
from pathlib import Path

import pytest
from starlette.applications import Starlette

from butlers.auth.token_store import TokenStore
from butlers.memory.module import MemoryModule
from butlers.memory.settings import MemoryModuleConfig
from butlers.module import ButlerEnvironment
from interfaces.daemons import Daemon
from interfaces.mcp.conformance_butler import ConformanceMCP, app_of, served, signed_in

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
INSTALLED = CACHE / "butlers-tests" / "conformance-0.1.16"
BUTLERS_OWN = {
    "server-initialize", "logging-set-level", "ping", "completion-complete", "tools-list",
    "resources-list", "prompts-list", "dns-rebinding-protection",
}  # fmt: skip
WITH_TEST_TOOLS = {
    "tools-call-simple-text", "tools-call-image", "tools-call-audio", "tools-call-error",
    "tools-call-embedded-resource", "tools-call-mixed-content", "tools-call-with-progress",
    "tools-call-with-logging",
    "json-schema-2020-12", "resources-read-text", "resources-read-binary",
    "resources-templates-read", "prompts-get-simple", "prompts-get-with-args",
    "prompts-get-embedded-resource", "prompts-get-with-image",
}  # fmt: skip
# Each request over HTTP stands alone, so that the next may come to another process: nobody is left
# to ask the client something, or to tell it later.
STATEFUL = {
    "tools-call-sampling", "tools-call-elicitation",
    "elicitation-sep1034-defaults", "elicitation-sep1330-enums", "server-sse-polling",
    "server-sse-multiple-streams", "resources-subscribe", "resources-unsubscribe",
}  # fmt: skip


OUTCOME = re.compile(r"^[✓✗] (\S+): (\d+) passed, (\d+) failed$", re.MULTILINE)


@pytest.fixture(scope="module")
def suite() -> list[str]:
    """The command that runs the suite on a server, whose URL follows."""
    if not (INSTALLED / "installed").exists():
        pytest.skip("the suite is not installed: run scripts/install-conformance")
    modules = INSTALLED / "node_modules"
    (node,) = modules.glob("node-*/bin/node")
    program = modules / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
    return [str(node), str(program), "server", "--suite", "all", "--output-dir", "results", "--url"]


def run(suite: list[str], app: Starlette, directory: Path) -> tuple[set[str], set[str]]:
    """The scenarios that passed, and the others."""
    with served(app) as url:
        command = [*suite, f"{url}/butlers/general/mcp"]
        done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    outcomes = {name: (int(well), int(ill)) for name, well, ill in OUTCOME.findall(done.stdout)}
    passed = {name for name, (well, ill) in outcomes.items() if well and not ill}
    return passed, outcomes.keys() - passed


def test_a_daemon_passes_what_needs_no_tool_for_tests(
    suite: list[str], daemon: Daemon, tokens: TokenStore, tmp_path: Path
) -> None:
    _, token = tokens.create("general", "conformance")
    passed, others = run(suite, signed_in(daemon, token), tmp_path)
    # That a tool is not there is text and an error: two scenarios that ask for no more pass, too.
    assert passed == BUTLERS_OWN | {"tools-call-simple-text", "tools-call-error"}
    assert passed | others == BUTLERS_OWN | WITH_TEST_TOOLS | STATEFUL


def test_a_butler_with_the_tools_for_tests_passes_the_rest(
    suite: list[str], tmp_path: Path
) -> None:
    module = MemoryModule(ButlerEnvironment("general"), MemoryModuleConfig())
    server = ConformanceMCP("general", [module])
    server.add_what_is_read()
    passed, others = run(suite, app_of(server), tmp_path)
    assert passed == BUTLERS_OWN | WITH_TEST_TOOLS and others == STATEFUL
