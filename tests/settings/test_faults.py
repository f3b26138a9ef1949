"""Each fault of a butler's file is told in one line, and none of them tells a secret."""

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import pytest
from annotated_types import Ge, Gt, Le, MaxLen, MinLen

from butlers.errors import SettingsError
from butlers.kernel.sections import CRON
from butlers.settings.fields import valid_text
from butlers.settings.files import load_butler
from butlers.settings.sections import RemoteButler

NAME_RULE = (
    "a name of at most 40 lower-case letters, digits and underscores that starts with a letter "
    "and is none of api, butlers, docs, health, mcp, memory, metrics, new, notebook, static"
)
CRON_RULE = 'a cron expression in UTC such as "0 3 * * *", or "" for never'


@pytest.fixture
def file(tmp_path):
    return butler_file(tmp_path, "general")


def butler_file(home: Path, name: str, text: str = "") -> Path:
    file = home / "butlers" / name / "butler.toml"
    file.parent.mkdir(parents=True)
    file.write_text(text, "utf-8")
    return file


def faults(file: Path, text: str) -> list[str]:
    file.write_text(text, "utf-8")
    with pytest.raises(SettingsError) as caught:
        load_butler(file)
    return list(caught.value.faults)


ONE_FAULT = {
    "[modules.memory]\nenabeld = true": (
        "modules.memory.enabeld: found an unknown key; did you mean enabled? valid keys are "
        "enabled, secrets, embedding_model, embedding_dimensions, embedding_model_directory, "
        "episodes, retention, facts, rules, retrieval, context, consolidation, statements, "
        "quarantine, schedule"
    ),
    "[modules.memroy]\nenabled = true": (
        "modules.memroy: found an unknown key; did you mean memory? valid keys are memory, notebook"
    ),
    "[modules.calendar]": (
        "modules.calendar: found an unknown key; valid keys are memory, notebook"
    ),
    '"two\\nlines" = 1': (
        '"two\\nlines": found an unknown key; '
        "valid keys are butler, modules, database, runtime, mcp, server"
    ),
    "[severs]": (
        "severs: found an unknown key; did you mean server? "
        "valid keys are butler, modules, database, runtime, mcp, server"
    ),
    "[runtime]\napi_key = 'sk-very-secret'": (
        "runtime.api_key: found an unknown key; did you mean api_key_env? valid keys are kind, "
        "command, model, url, api_key_env, timeout_seconds, context_tokens"
    ),
    "[modules.memory.episodes]\ndefault_ttl_days = '7'": (
        'modules.memory.episodes.default_ttl_days: found "7"; '
        "valid is a whole number from 1 to 36500"
    ),
    "[modules.memory.episodes]\nmax_entries = 0": (
        "modules.memory.episodes.max_entries: found 0; valid is a whole number from 1 to 1000000000"
    ),
    "[modules.memory]\nenabled = 'yes'": (
        'modules.memory.enabled: found "yes"; valid is true or false'
    ),
    "[modules.memory]\nepisodes = 3": (
        "modules.memory.episodes: found 3; "
        "valid is a table with the keys default_ttl_days, max_entries, keep_unread"
    ),
    "[modules.memory.retrieval]\ndefault_mode = 'fuzzy'": (
        'modules.memory.retrieval.default_mode: found "fuzzy"; '
        'valid is one of "hybrid", "semantic", "keyword"'
    ),
    "[modules.memory.facts]\nexpiry_confidence_threshold = 0.3": (
        "modules.memory.facts.expiry_confidence_threshold: found 0.3; "
        "must be below retrieval_confidence_threshold, which is 0.2"
    ),
    "[modules.memory.facts]\nretrieval_confidence_threshold = nan": (
        "modules.memory.facts.retrieval_confidence_threshold: found nan; "
        "valid is a number from 0 to 1"
    ),
    "[modules.memory.rules]\npromote_to_proven = { min_successes = 2 }": (
        "modules.memory.rules.promote_to_proven.min_successes: found 2; "
        "must be at least promote_to_established.min_successes, which is 5"
    ),
    "[modules.memory.retrieval]\nscore_weights = { relevance = 0.9 }": (
        "modules.memory.retrieval.score_weights: found "
        "{ relevance = 0.9, importance = 0.3, recency = 0.2, confidence = 0.1 }; "
        "the four weights must sum to 1, these sum to 1.5"
    ),
    "[modules.memory.schedule]\nconsolidate = 'often'": (
        f'modules.memory.schedule.consolidate: found "often"; valid is {CRON_RULE}'
    ),
    "[butler.schedule]\nconsolidate = { cron = '61 * * * *' }": (
        f'butler.schedule.consolidate.cron: found "61 * * * *"; valid is {CRON_RULE}'
    ),
    "[butler.schedule]\nconsolidate = {}": (
        f"butler.schedule.consolidate.cron: found nothing; valid is {CRON_RULE}"
    ),
    "[butler.schedule]\nreport = { cron = '0 9 * * *' }": (
        'butler.schedule.report.prompt: found ""; must say what to ask; '
        "only consolidate, decay_sweep, episode_cleanup, check_store need no prompt"
    ),
    "[butler.schedule]\nreport = '0 9 * * *'": (
        'butler.schedule.report: found "0 9 * * *"; valid is a table with the keys cron, prompt'
    ),
    "[butler.schedule]\nDaily-Report = { cron = '0 9 * * *', prompt = 'Report' }": (
        'butler.schedule.Daily-Report: found "Daily-Report"; valid is a name of lower-case '
        "letters, digits and underscores that starts with a letter"
    ),
    "[butler]\nname = 'other'": (
        'butler.name: found "other"; must be the name of its directory, "general"'
    ),
    "[butler]\nname = 7": f"butler.name: found 7; valid is {NAME_RULE}",
    "[butler]\ntenant = 'a b'": (
        'butler.tenant: found "a b"; valid is text of 1 to 200 characters without spaces'
    ),
    "butler = 'general'": (
        'butler: found "general"; '
        "valid is a table with the keys name, description, tenant, schedule"
    ),
    "[database]\nurl = 'mysql://bob:hunter2@db/x'": (
        'database.url: found "mysql://bob:***@db/x"; '
        'valid is a URL such as "postgresql://user@host:5432/postgres", or ""'
    ),
    "[database]\nurl = 'host=db password=hunter2 user=bob'": (
        'database.url: found "host=db password=*** user=bob"; '
        'valid is a URL such as "postgresql://user@host:5432/postgres", or ""'
    ),
    "[database]\nurl = 'postgresql://bob:p@ss:hunter2@db:port/x'": (
        'database.url: found "postgresql://bob:***@db:port/x"; '
        'valid is a URL such as "postgresql://user@host:5432/postgres", or ""'
    ),
    "[database]\nurl = 'postgresql://bob:hunter2@one:5432,two:port/x'": (
        'database.url: found "postgresql://bob:***@one:5432,two:port/x"; '
        'valid is a URL such as "postgresql://user@host:5432/postgres", or ""'
    ),
    "[database]\nurl = 'postgresql://db'\nreplica_urls = ['mysql://bob:hunter2@db/x']": (
        'database.replica_urls.0: found "mysql://bob:***@db/x"; '
        'valid is a URL such as "postgresql://user@host:5432/postgres"'
    ),
    "[database]\nreplica_urls = ['postgresql://bob:hunter2@db/x']": (
        "database.replica_urls: found a list; "
        "must be empty, as database.url is: the embedded server has no replicas"
    ),
    "[database]\nreplica_urls = 'postgresql://db'": (
        'database.replica_urls: found "postgresql://db"; '
        'valid is a list, each item a URL such as "postgresql://user@host:5432/postgres"'
    ),
    "[mcp]\ntools = 'most'": ('mcp.tools: found "most"; valid is one of "core", "standard", "all"'),
    "[mcp]\ntools = 3": 'mcp.tools: found 3; valid is one of "core", "standard", "all"',
    "[runtime]\nkind = 'gpt'": (
        'runtime.kind: found "gpt"; valid is one of "none", "claude", "codex", "command", "http"'
    ),
    "[runtime]\nkind = 'command'": (
        'runtime.command: found a list; must name a program, as kind is "command"'
    ),
    "[runtime]\ncommand = 'ask --now'": (
        'runtime.command: found "ask --now"; valid is a list, each item text'
    ),
    "[runtime]\ncommand = ['ask', 1]": "runtime.command.1: found 1; valid is text",
    "[runtime]\nkind = 'http'": 'runtime.url: found ""; must be the URL to ask, as kind is "http"',
    "[runtime]\nkind = 'http'\nurl = 'ftp://host'": (
        'runtime.url: found "ftp://host"; '
        'valid is a URL such as "https://host/v1/chat/completions", or ""'
    ),
    "[runtime]\napi_key_env = 'sk-very-secret'": (
        "runtime.api_key_env: found text that is not shown here; valid is the name of an "
        'environment variable such as "OPENAI_API_KEY", never the key itself, or ""'
    ),
    "[runtime]\nkind = 'claude'\ncommand = ['claude', '--fast']": (
        'runtime.command: found a list; must be the path of the program alone, as kind is "claude"'
    ),
    "[butler]\nschedule = 3": (
        "butler.schedule: found 3; valid is a table, each entry a table with the keys cron, prompt"
    ),
    "[modules.memory]\nembedding_model = ''": (
        'modules.memory.embedding_model: found ""; valid is text of 1 to 200 characters'
    ),
    "[modules.memory]\nembedding_model_directory = 3": (
        'modules.memory.embedding_model_directory: found 3; valid is the path of a directory, or ""'
    ),
    "[server]\ndrain_seconds = 601": (
        "server.drain_seconds: found 601; valid is a number from 0 to 600"
    ),
    "[server]\nhost = '0.0.0.0'": (
        'server.host: found "0.0.0.0"; '
        'must be a loopback address such as "127.0.0.1", unless allow_remote is true'
    ),
    "[server]\nport = 65536": "server.port: found 65536; valid is a whole number from 0 to 65535",
    "[server]\nport = true": "server.port: found true; valid is a whole number from 0 to 65535",
}


@pytest.mark.parametrize(("text", "line"), ONE_FAULT.items(), ids=ONE_FAULT.values())
def test_each_fault_is_one_line(file, text, line):
    assert faults(file, text) == [f"{file}: {line}"]


@pytest.mark.parametrize("secret", ["hunter2", "very-secret"])
def test_no_line_holds_a_secret(file, secret):
    told = [line for text in ONE_FAULT if secret in text for line in faults(file, text)]
    assert told
    assert not [line for line in told if secret in line]


def test_all_faults_of_a_file_are_told_at_once(file):
    wrong_name, wrong_port = "[butler]\nname = 'other'\n", "[server]\nport = -1\n"
    told = faults(file, wrong_name + wrong_port + "[modules.notebook]\nenabled = 'all'\n")
    assert told == [
        f'{file}: modules.notebook.enabled: found "all"; valid is true or false',
        f"{file}: server.port: found -1; valid is a whole number from 0 to 65535",
        f'{file}: butler.name: found "other"; must be the name of its directory, "general"',
    ]


def test_the_message_of_the_error_is_its_lines(file):
    file.write_text("[server]\nport = -1\nhost = 5\n")
    with pytest.raises(SettingsError) as caught:
        load_butler(file)
    assert str(caught.value).splitlines() == list(caught.value.faults)
    assert len(caught.value.faults) == 2


def test_a_long_value_is_cut(file):
    (line,) = faults(file, f"[runtime]\nkind = '{'x' * 5000}'")
    assert len(line) < 400


def test_a_directory_that_is_no_name_is_told(tmp_path):
    file = butler_file(tmp_path, "api")
    with pytest.raises(SettingsError) as caught:
        load_butler(file)
    assert caught.value.faults == (f'{file}: butler.name: found "api"; valid is {NAME_RULE}',)


@pytest.mark.parametrize(
    ("text", "line"), [("[butler]\nname 'general'\n", 2), ("[butler]\nx = 1\n\nname =\n", 4)]
)
def test_a_syntax_error_names_its_line(file, text, line):
    (fault,) = faults(file, text)
    assert fault.startswith(f"{file}:{line}: found text that is not TOML (")
    assert fault.endswith("; valid is key = value")


def test_a_syntax_error_at_the_end_names_the_last_line(file):
    (fault,) = faults(file, '[butler]\ntext = """open\n')
    assert fault.startswith(f"{file}:2: found text that is not TOML (")


def test_a_missing_file_is_told(file):
    file.unlink()
    with pytest.raises(SettingsError) as caught:
        load_butler(file)
    line = f'{file}: found no such file; create it with "butlers new general"'
    assert caught.value.faults == (line,)


def test_a_file_in_another_encoding_is_told(file):
    file.write_bytes(b"[butler]\ndescription = 'caf\xe9'\n")
    with pytest.raises(SettingsError) as caught:
        load_butler(file)
    line = f"{file}: found a byte that is not UTF-8 at offset 27; save the file as UTF-8"
    assert caught.value.faults == (line,)


def test_a_directory_in_place_of_the_file_is_told(file):
    file.unlink()
    file.mkdir()
    with pytest.raises(SettingsError, match="cannot be read"):
        load_butler(file)


def test_a_byte_order_mark_and_windows_line_ends_are_read(file):
    file.write_bytes(b"\xef\xbb\xbf[butler]\r\ndescription = 'x'\r\n")
    assert load_butler(file).butler.description == "x"


class Shade(StrEnum):
    """A choice."""

    LIGHT = "light"
    DARK = "dark"


@pytest.mark.parametrize(
    ("kind", "bounds", "valid"),
    [
        (Shade, (), 'one of "light", "dark"'),
        (Literal["a", 2], (), 'one of "a", 2'),
        (Literal["all"] | tuple[str, ...], (), 'one of "all", or a list, each item text'),
        (
            tuple[Annotated[int, Ge(1), Le(9)], ...],
            (),
            "a list, each item a whole number from 1 to 9",
        ),
        (Mapping[str, Shade], (), 'a table, each entry one of "light", "dark"'),
        (RemoteButler, (), "a table with the keys name, url, token_env, tenant"),
        (int, (Ge(1), Le(9)), "a whole number from 1 to 9"),
        (float, (Gt(0), Le(9)), "a number above 0 to 9"),
        (str, (MinLen(1), MaxLen(9)), "text of 1 to 9 characters"),
        (bool, (), "true or false"),
        (str, (CRON,), CRON_RULE),
    ],
)
def test_what_is_valid_is_said_for_every_kind_of_setting(kind, bounds, valid):
    assert valid_text(kind, bounds) == valid
