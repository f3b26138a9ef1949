"""The API keeps what its OpenAPI document says, whatever it is sent."""

import time

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from butlers.auth.rights import Right
from interfaces.http.callers import token_store

CHECKS = [
    not_a_server_error,
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
]
EXAMPLES = 8
SECONDS_EACH = 1.3


@pytest.fixture(scope="module")
def document(daemon):
    return schemathesis.openapi.from_url(f"{daemon.url}/api/openapi.json")


@pytest.fixture(scope="module")
def headers(daemon):
    _, token = token_store(daemon.home).create("general", "fuzz", rights=Right.OPERATE)
    return {"Authorization": f"Bearer {token}"}


def operations(document):
    return [found.ok() for found in document.get_all_operations()]


def test_every_operation_says_what_it_does_and_how_it_fails(document):
    found = operations(document)
    assert len(found) > 30
    for operation in found:
        described = operation.definition.raw
        assert described["summary"] and described["description"], operation.label
        assert {"401", "404", "422", "503"} <= described["responses"].keys()
    assert not document.raw_schema.get("servers")


@pytest.mark.slow
def test_whatever_is_sent_is_answered_as_described(document, headers):
    """Each operation is sent things that fit its description and things that do not."""
    sent = [fuzz(operation, headers) for operation in operations(document)]
    assert min(sent) >= 1
    assert sum(sent) > 100


def fuzz(operation, headers) -> int:
    """Send an operation a number of things within its time; how many it was sent."""
    deadline = time.monotonic() + SECONDS_EACH
    sent = 0

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy())
    def send(case):
        nonlocal sent
        if sent and time.monotonic() > deadline:
            return
        if "name" in case.path_parameters:
            # A butler's name at random leads nowhere.
            case.path_parameters["name"] = "general"
        case.validate_response(case.call(headers=headers, timeout=30), checks=CHECKS)
        sent += 1

    send()
    return sent
