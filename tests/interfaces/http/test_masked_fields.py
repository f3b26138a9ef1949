"""Secrets in a request id, a project or a note of a token are masked before they are used."""

import pytest

from butlers.auth.rights import Project
from butlers.auth.token_grant import TokenGrant
from butlers.interfaces.http.request_limits import Envelope

SECRET = "gh" + "p_" + "16C7e42F292c6912E7710c838347Ae178B4a"


def test_a_request_id_is_masked() -> None:
    envelope = Envelope(lambda *_: None)  # type: ignore[arg-type,return-value]
    assert SECRET not in envelope._request_id(f"run {SECRET}")
    assert envelope._request_id("shift 7") == "shift 7"


@pytest.mark.parametrize("field", ["keys", "name", "place"])
def test_a_project_is_masked_and_stays_distinct(field: str) -> None:
    value = {"keys": ["remote:git.example/shop"], "name": "shop", "place": "/work/shop"}
    other = f"/work/{SECRET}" if field != "keys" else [f"remote:git.example/{SECRET}"]
    project, plain = Project.of(value | {field: other}), Project.of(value)
    assert project != plain
    assert SECRET not in str(project)
    assert plain == Project(("remote:git.example/shop",), "shop", "/work/shop")


def test_a_note_of_a_token_is_masked() -> None:
    assert SECRET not in TokenGrant("default", f"for {SECRET}").checked().note
    assert TokenGrant("default", "for the laptop").checked().note == "for the laptop"
