"""What an audit is asked to do and what it may cost. Nothing here takes long to import."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Kind = Literal["email", "url", "phone", "ip", "ssn"]
KINDS: tuple[Kind, ...] = ("email", "url", "phone", "ip", "ssn")
STRICT = ConfigDict(frozen=True, strict=True, extra="forbid")


def share(default: float, about: str) -> float:
    """A share that must be reached; 1 could not be measured against."""
    return Field(default, ge=0, lt=1, description=about)


class Limits(BaseModel):
    """What counts as a success: shares to reach, and a rise of perplexity not to exceed."""

    model_config = STRICT
    forgotten: float = Field(
        0.9, ge=0, le=1, description="limit: secrets neither written nor in the first 100"
    )
    kept: float = share(0.8, "limit: share of the other secrets that are still written")
    nearby_text: float = share(0.8, "limit: share of next words around the secrets that stay")
    next_word_agreement: float = share(0.95, "limit: share of next words elsewhere that stay")
    perplexity: float = Field(
        0.05, ge=0, description="limit: rise of perplexity on general text, as a share"
    )

    def is_met(self, name: str, value: float) -> bool:
        """Is this value of one limit within it?"""
        limit = getattr(self, name)
        return value <= limit if name == "perplexity" else value >= limit

    def losses(self, shares: dict[str, float | None]) -> dict[str, float]:
        """Return each loss, by name, in units of what its limit allows; 1 or less is within it."""
        found = {}
        for name in Limits.model_fields:
            if (value := shares[name]) is not None:
                limit, rise = getattr(self, name), name == "perplexity"
                lost, allowed = (value, limit) if rise else (1 - value, 1 - limit)
                found[name] = max(0.0, lost) / max(allowed, 1e-3) if lost == lost else float("inf")
        return found


class AuditSettings(Limits):
    """What is looked for, what is unlearned, how long settings are searched, and the limits."""

    kinds: list[Kind] = Field(list(KINDS), min_length=1, description="kinds of secrets to look for")
    limit: int | None = Field(None, ge=1, description="most secrets to try; None: all")
    forget: int | None = Field(None, ge=1, description="secrets to unlearn; None: all")
    method: Literal["least_squares", "revs"] = Field(
        "least_squares", description="how the edit is written; revs: the paper's columns"
    )
    minutes: float = Field(3, ge=0, description="most minutes to search for settings")
    trials: int = Field(30, ge=1, description="most settings to try")
    hyperparameters: dict | None = Field(
        None, description="all settings of the method; None: they are searched"
    )
    anyway: bool = Field(False, description="write the edit even if a limit is missed")
    seed: int = Field(0, description="seed of the splits")

    def limits(self) -> Limits:
        """The limits alone."""
        return Limits(**{name: getattr(self, name) for name in Limits.model_fields})
