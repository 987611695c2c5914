"""What `signoff doctor` says of one part: a finding, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding of `signoff doctor` about one part; `remedy` says what to do if it is not well."""

    part: str
    well: bool
    detail: str
    remedy: str = ""
