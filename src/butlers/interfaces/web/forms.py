"""What a form of ours sends back, once it is known that it is ours."""

from dataclasses import dataclass
from urllib.parse import parse_qsl

from starlette.exceptions import HTTPException
from starlette.requests import Request

from butlers.interfaces.web.signin import is_from_here

CSRF_FIELD = "csrf"
_TYPE = "application/x-www-form-urlencoded"
_MOST_FIELDS = 50
NOT_MEANT = "this form is out of date or was not sent from here; go back, reload and try again"


@dataclass(frozen=True, slots=True)
class Form:
    """The fields of a form; one that is missing is empty."""

    fields: dict[str, str]

    def __getitem__(self, name: str) -> str:
        return self.fields.get(name, "")

    def optional(self, name: str) -> str | None:
        """A field, or None when nothing was put in."""
        return self[name].strip() or None


async def sent_form(request: Request) -> Form:
    """The fields of a form that was sent from one of our pages."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _TYPE:
        raise HTTPException(415, f"a form is sent as {_TYPE}")
    if not is_from_here(request):
        raise HTTPException(403, NOT_MEANT)
    try:
        body = (await request.body()).decode("utf-8")
        pairs = parse_qsl(body, keep_blank_values=True, max_num_fields=_MOST_FIELDS)
    except ValueError:
        raise HTTPException(400, "the form could not be read; try again") from None
    return Form(dict(pairs))
