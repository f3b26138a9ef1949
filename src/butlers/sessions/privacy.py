"""Decide what of a session is private: by tag, in words, by switch, pause or ignore file.

Everything that stores sessions asks here first. A private turn is left out together with its
answer and tool calls. The hook imports this, so it imports very little.
"""

import os
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from butlers.errors import Conflict
from butlers.kernel.private_tags import has_private, without_private
from butlers.sessions import pauses
from butlers.sessions.pauses import Mark, Window
from butlers.sessions.privacy_words import PrivacyRequest, find_request
from butlers.sessions.prompts import may_hold_prompt, parse_record, prompt_of, texts_of

OFF = "BUTLERS_OFF"
"""The environment variable that switches hooks off, and storing by tools."""

SWITCHED_OFF = f"{OFF} is set, so nothing is stored; unset it to store again"
IGNORE_FILE = ".butlersignore"
STARTING = (PrivacyRequest.SESSION, PrivacyRequest.ONWARD)
"""Requests that make what follows private."""
WHOLLY = (*STARTING, PrivacyRequest.LAST, PrivacyRequest.TURN)
"""Requests that make their turn private."""


def check_call(home: str, project: dict[str, Any] | None, given: Any) -> None:
    """Raise Conflict if words given to a tool may not be stored: paused, or ignored."""
    place = str((project or {}).get("place") or "")
    check_storing(home, (project or {}).get("keys") or ())
    rules = find_rules(home, "", place, project)
    if rules.is_ignored or any(map(rules.matches, texts_of(given))):
        raise Conflict(f"{IGNORE_FILE} makes this private, so nothing was stored")


def check_storing(home: str, keys: Iterable[str] = ()) -> None:
    """Raise Conflict if memory is paused in a home, or for a project with these keys."""
    pause = pauses.current_pause(home, keys)
    if pause is not None:
        what = f"memory of project {pause['name']}" if pause["keys"] else "memory"
        raise Conflict(f"{what} is paused, so nothing is stored; `butlers resume` ends the pause")


def check_switch(environment: Mapping[str, str] = os.environ) -> None:
    """Raise Conflict if an environment, by default this process's, has BUTLERS_OFF set."""
    if is_switched_off(environment):
        raise Conflict(SWITCHED_OFF)


def is_switched_off(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether an environment, by default this process's, has BUTLERS_OFF set."""
    return environment.get(OFF, "").lower() not in ("", "0", "false", "no")


class PrivacyRules:
    """What a home says about one session: when it was private, and which texts are."""

    def __init__(
        self,
        is_ignored: bool = False,
        windows: tuple[Window, ...] = (),
        files: tuple[Any, ...] = (),
        directory: str = "/",
    ) -> None:
        self.is_ignored, self.windows = is_ignored, windows
        self.files, self.directory = files, directory

    def covers(self, at: str) -> bool:
        """Whether an instant, as transcripts write it, was in a private time."""
        if not self.windows or not at:
            return False
        try:
            instant = datetime.fromisoformat(at).timestamp()
        except ValueError:
            return False
        return any(since <= instant < until for since, until in self.windows)

    def matches(self, text: str) -> bool:
        """Whether an ignore file makes a text private."""
        return any(file.matches(text, self.directory) for file in self.files)


ANY_SESSION = PrivacyRules()
"""The rules where no home is known: tags and words alone."""


def find_rules(home: str, session: str, cwd: str, project: dict[str, Any] | None) -> PrivacyRules:
    """Read the rules of a home for a session."""
    keys, top = (project or {}).get("keys") or (), (project or {}).get("place") or cwd
    files = _ignore_files(home, top)
    directory, name = os.path.realpath(cwd or "/"), str((project or {}).get("name") or "")
    ignored = any(file.covers(directory, name) for file in files)
    mark = pauses.read_mark(home, session)
    windows = (*pauses.pause_windows(home, keys), *pauses.mark_windows(mark))
    return PrivacyRules(ignored, windows, files, directory)


def is_blocked(home: str, cwd: str, project: dict[str, Any] | None) -> bool:
    """Whether nothing of a session may be stored now: paused, or its directory ignored."""
    if pauses.current_pause(home, (project or {}).get("keys") or ()):
        return True
    return find_rules(home, "", cwd, project).is_ignored


def may_report(home: str, about: dict[str, Any]) -> bool:
    """Whether anything of a session may be reported now; if not, only its id is noted."""
    session, cwd = about.get("session_id", ""), about.get("cwd", "")
    if is_switched_off() or is_blocked(home, cwd, about["project"]):
        pauses.switch_off(home, session)
        return False
    if mark := pauses.read_mark(home, session):
        pauses.switch_on(home, session, mark)
    return True


def withhold(home: str, about: dict[str, Any]) -> bool:
    """Take what is private out of a hook's prompt; return whether nothing is left to report."""
    session, prompt = about.get("session_id", ""), about.get("prompt")
    mark = pauses.read_mark(home, session)
    if prompt is None:
        return bool(mark.get("turn"))
    rules = find_rules(home, session, about.get("cwd", ""), about["project"])
    public, new = public_prompt(mark, rules, prompt)
    if new["turn"] or (mark and new != mark):
        pauses.write_mark(home, session, new)
    about["prompt"] = public or ""
    return not public and public != prompt


def public_text(prompt: str) -> str:
    """Return what of a prompt may be stored, by its tags and words alone; "" if nothing."""
    return public_prompt({}, ANY_SESSION, prompt)[0] or ""


def is_left_out(home: str, entry: dict[str, Any]) -> bool:
    """Whether a session that no hook reported is not to be read: ignored, or switched off."""
    windows = pauses.mark_windows(pauses.read_mark(home, entry["session"]))
    is_off = bool(windows) and windows[-1][1] == pauses.FOREVER
    return is_off or find_rules(home, "", entry["cwd"], entry["project"]).is_ignored


def public_prompt(mark: Mark, rules: PrivacyRules, prompt: str) -> tuple[str | None, Mark]:
    """Return what of a prompt may be stored, None if its whole turn is private, and the new mark.

    By the mark, later events of the turn are known to be private, and prompts off the record.
    """
    text = without_private(prompt)
    request = find_request(text)
    off_record = request in STARTING or (
        bool(mark.get("words")) and request is not PrivacyRequest.RESUME
    )
    private = off_record or request in WHOLLY or rules.matches(prompt)
    new = {**mark, "words": off_record, "turn": private or text != prompt}
    return None if private else text, new


def scan(home: str, entry: dict[str, Any], known: dict[str, Any]) -> tuple[int, bool]:
    """Look for private turns in a session's transcript, from where the known entry ended.

    Return up to where it was read, and whether there may be one.
    """
    start = known.get("scanned") or 0 if known.get("path") == entry["path"] else 0
    place = (entry["project"] or {}).get("place") or entry["cwd"]
    if known.get("private") or pauses.read_mark(home, entry["session"]):
        return start, True
    if _ignore_files(home, place):
        return start, True
    return _scan_lines(entry["path"], start) if os.path.isfile(entry["path"]) else (0, False)


def _scan_lines(path: str, start: int) -> tuple[int, bool]:
    with open(path, "rb") as file:
        file.seek(start)
        for line in file:
            if may_hold_prompt(text := line.decode("utf-8", "replace")):
                prompt = prompt_of(parse_record(text)) or ""
                if has_private(prompt) or find_request(prompt) in WHOLLY:
                    return start, True
            start += len(line) if line.endswith(b"\n") else 0
    return start, False


def _ignore_files(home: str, top: str) -> tuple[Any, ...]:
    """Read the ignore files of the home and of a project."""
    directories = [at for at in (home, top) if at and os.path.exists(os.path.join(at, IGNORE_FILE))]
    if not directories:
        return ()
    from butlers.sessions.ignore_file import read_rules  # noqa: PLC0415  most homes have none

    return tuple(filter(None, map(read_rules, directories)))
