"""What the fields of a search or a filter ask for; a field left empty asks for nothing."""

from typing import Any

from starlette.requests import Request

from butlers.operation import Operation

_DAY = len("2026-01-31")
_DAYS = ("created_after", "created_before")


def filled_fields(request: Request, *, without: tuple[str, ...] = ()) -> dict[str, str]:
    """The fields of the address that say something."""
    pairs = request.query_params.items()
    return {key: value.strip() for key, value in pairs if value.strip() and key not in without}


def operation_fields(operation: Operation, fields: dict[str, str]) -> dict[str, Any]:
    """The fields that an operation asks for, as it takes them."""
    return {
        key: _taken(key, value)
        for key, value in fields.items()
        if key in operation.input_model.model_fields
    }


def searched(fields: dict[str, str]) -> dict[str, Any]:
    """The fields of a search, under the names of the operation: one kind, or all."""
    asked: dict[str, Any] = {**fields, "query": fields["q"]}
    return asked | ({"types": [fields["types"]]} if "types" in fields else {})


def _taken(key: str, value: Any) -> Any:
    """A day is its first moment: a form's own picker knows no times."""
    return f"{value}T00:00:00Z" if key in _DAYS and len(value) == _DAY else value
