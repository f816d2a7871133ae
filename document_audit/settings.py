"""What an audit is asked to do and what it may cost. Nothing here takes long to import."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Kind = Literal["email", "url", "phone", "ip", "ssn"]
KINDS: tuple[Kind, ...] = ("email", "url", "phone", "ip", "ssn")
STRICT = ConfigDict(frozen=True, strict=True, extra="forbid")


def share(default: float, about: str) -> float:
    """A share that must be reached; 1 could not be measured against."""
    return Field(default, ge=0, lt=1, description=about)


class Limits(BaseModel):
    """What is called a success: shares that must be reached, and a rise that must not."""

    model_config = STRICT
    forgotten: float = Field(
        0.9, ge=0, le=1, description="limit: secrets neither written nor in the first 100"
    )
    kept: float = share(0.8, "limit: share of the other secrets that are still written")
    nearby_text: float = share(0.8, "limit: share of next words around the secrets that stay")
    next_word_agreement: float = share(0.95, "limit: share of next words elsewhere that stay")
    perplexity: float = Field(
        0.05, ge=0, description="limit: share by which that of general text may rise"
    )

    def is_met(self, name: str, value: float) -> bool:
        """Is this value of one limit within it?"""
        limit = getattr(self, name)
        return value <= limit if name == "perplexity" else value >= limit

    def losses(self, shares: dict[str, float | None]) -> dict[str, float]:
        """What was lost, by name, in units of what may be; 1 or less is within the limits."""
        found = {}
        for name in Limits.model_fields:
            if (value := shares[name]) is not None:
                limit, rise = getattr(self, name), name == "perplexity"
                lost, allowed = (value, limit) if rise else (1 - value, 1 - limit)
                found[name] = max(0.0, lost) / max(allowed, 1e-3) if lost == lost else float("inf")
        return found


class AuditSettings(Limits):
    """What is looked for, what is unlearned, how long settings are searched, and the limits."""

    kinds: list[Kind] = Field(list(KINDS), min_length=1, description="what is looked for")
    limit: int | None = Field(None, ge=1, description="secrets that are tried, at most")
    forget: int | None = Field(None, ge=1, description="secrets to unlearn; None: all")
    method: Literal["least_squares", "revs"] = Field(
        "least_squares", description="how the edit is written; revs: the paper's columns"
    )
    minutes: float = Field(3, ge=0, description="that the search for settings may take")
    trials: int = Field(30, ge=1, description="settings that it may try")
    hyperparameters: dict | None = Field(
        None, description="all settings of the method; None: they are searched"
    )
    anyway: bool = Field(False, description="write the edit even if a limit is missed")
    seed: int = Field(0, description="draws what forget takes, and halves")

    def limits(self) -> Limits:
        """The limits alone."""
        return Limits(**{name: getattr(self, name) for name in Limits.model_fields})
