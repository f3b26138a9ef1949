"""What the fields of a search or a filter ask for; a field left empty asks for nothing."""

from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import Request

from butlers.errors import InvalidInput

Asked = TypeVar("Asked", bound=BaseModel)
_DAY = len("2026-01-31")
_DAYS = ("created_after", "created_before")


def given(request: Request, *, without: tuple[str, ...] = ()) -> dict[str, str]:
    """The fields of the address that say something."""
    pairs = request.query_params.items()
    return {key: value.strip() for key, value in pairs if value.strip() and key not in without}


def read(model: type[Asked], fields: dict[str, Any]) -> Asked:
    """The fields as a filter; InvalidInput names the first that is none."""
    known = {
        key: _instant(key, value) for key, value in fields.items() if key in model.model_fields
    }
    try:
        return model.model_validate(known)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        found = f"{first['input']!r:.80}"
        raise InvalidInput(f"{field}: found {found}; {first['msg']}") from None


def _instant(key: str, value: Any) -> Any:
    """A day as its first moment: a form's own picker knows no times."""
    return f"{value}T00:00:00Z" if key in _DAYS and len(value) == _DAY else value
