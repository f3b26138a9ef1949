"""The settings of `[fleet]`: butlers of other homes that are shown beside our own."""

from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from butlers.kernel.sections import Fault, InlineSection, Section, Valid, refuse
from butlers.settings.names import VALID_NAME, validate_name
from butlers.settings.types import AnyTenant, ButlerUrl, TokenVariable


class RemoteButler(InlineSection):
    """A butler that another process serves, here or on another host."""

    name: Annotated[str, AfterValidator(validate_name), Valid(VALID_NAME)] = Field(
        description="What it is called here."
    )
    url: ButlerUrl = Field(description="Where its API is.")
    token_env: TokenVariable = Field(
        description="Name of the environment variable that holds a token for it, never the token."
    )
    tenant: AnyTenant = Field(
        "", description='Callers of this tenant see it too; "" shows it to the operator alone.'
    )

    @property
    def pages(self) -> str:
        """Where its own home shows what it remembers."""
        place, _, name = self.url.rpartition("/api/butlers/")
        return f"{place}/butlers/{name}/memory"


class FleetSection(Section):
    """Butlers of other homes, shown on the fleet page beside those of this one."""

    remotes: Annotated[
        tuple[RemoteButler, ...],
        Valid("a list of tables with the keys " + ", ".join(RemoteButler.model_fields)),
    ] = Field((), strict=False, description="The butlers, each `{ name, url, token_env }`.")
    timeout_seconds: float = Field(
        2.0, gt=0, le=60, description="How long one butler may take before it is shown as down."
    )

    @model_validator(mode="after")
    def _each_has_a_name_of_its_own(self) -> Self:
        names = [remote.name for remote in self.remotes]
        refuse(
            [
                Fault(f"remotes.{place}.name", name, "must be one that no other remote has")
                for place, name in enumerate(names)
                if name in names[:place]
            ]
        )
        return self
