"""The settings of `[modules.memory.rules]`: how rules mature."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from butlers.kernel.sections import Fault, InlineSection, SettingsSection, refuse

Count = Annotated[int, Field(ge=1, le=1_000_000)]
Characters = Annotated[int, Field(ge=1, le=10_000_000)]
Share = Annotated[float, Field(ge=0, le=1)]


class PromoteToEstablished(InlineSection):
    """What makes a candidate rule established."""

    min_successes: Count = Field(5, description="Successful applications needed.")
    min_effectiveness: Share = Field(0.6, description="Effectiveness needed.")


class PromoteToProven(InlineSection):
    """What makes an established rule proven."""

    min_successes: Count = Field(15, description="Successful applications needed.")
    min_effectiveness: Share = Field(0.8, description="Effectiveness needed.")
    min_age_days: int = Field(30, ge=0, le=36_500, description="Age in days needed.")


class HarmfulToAntipattern(InlineSection):
    """What turns a rule into a warning against itself."""

    min_harmful: Count = Field(3, description="Harmful applications needed.")
    max_effectiveness: Share = Field(0.3, description="Effectiveness it is below.")


class RulesConfig(SettingsSection):
    """How rules rise, and how they are turned into warnings."""

    promote_to_established: PromoteToEstablished = Field(
        PromoteToEstablished(), description="What makes a candidate rule established."
    )
    promote_to_proven: PromoteToProven = Field(
        PromoteToProven(), description="What makes an established rule proven."
    )
    harmful_to_antipattern: HarmfulToAntipattern = Field(
        HarmfulToAntipattern(), description="What turns a rule into a warning against itself."
    )
    own_marks: bool = Field(
        True, description="Whether helpful marks by whoever stored a rule lift it."
    )
    max_content_chars: Characters = Field(
        20_000, description="Longest text of a rule; a longer one is refused."
    )

    @model_validator(mode="after")
    def _thresholds_rise_with_maturity(self) -> Self:
        refuse([*self._easier_to_prove_than_to_establish(), *self._harmful_yet_established()])
        return self

    def _easier_to_prove_than_to_establish(self) -> list[Fault]:
        lower, upper = self.promote_to_established, self.promote_to_proven
        return [
            Fault(
                f"promote_to_proven.{key}",
                getattr(upper, key),
                f"must be at least promote_to_established.{key}, which is {getattr(lower, key)}",
            )
            for key in ("min_successes", "min_effectiveness")
            if getattr(upper, key) < getattr(lower, key)
        ]

    def _harmful_yet_established(self) -> list[Fault]:
        least = self.promote_to_established.min_effectiveness
        most = self.harmful_to_antipattern.max_effectiveness
        if most < least:
            return []
        valid = f"must be below promote_to_established.min_effectiveness, which is {least}"
        return [Fault("harmful_to_antipattern.max_effectiveness", most, valid)]
