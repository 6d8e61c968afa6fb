"""Points in time as texts: RFC 3339, such as ``2030-01-31T09:00:00Z``."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_INSTANT: Final = re.compile(r"(\d{4}-\d{2}-\d{2})[Tt](\d{2}:\d{2}:\d{2})(?:\.(\d+))?([Zz]|[+-]\d{2}:\d{2})", re.ASCII)


def parse_instant(text: str) -> int:
    """Milliseconds since the epoch, rounded up; ``ValueError`` for anything but an RFC 3339 time with its offset."""
    found = _INSTANT.fullmatch(text)
    if found is None:
        raise ValueError(f"{text[:64]!r} is no RFC 3339 time such as 2030-01-31T09:00:00Z")
    date, time, fraction, offset = found.groups()
    try:
        whole = datetime.fromisoformat(f"{date}T{time}{'+00:00' if offset in 'Zz' else offset}")
        return milliseconds(whole) + _ceil_ms(fraction or "")
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{text!r} is no time: {error}") from error


def milliseconds(moment: datetime) -> int:
    """Milliseconds since the epoch, rounded down; ``ValueError`` for a time without an offset."""
    if moment.utcoffset() is None:
        raise ValueError(f"{moment.isoformat()} has no time zone, so it names no point in time")
    return (moment - _EPOCH) // _MILLISECOND


def instant_of(ms: int) -> datetime:
    """The UTC time of milliseconds since the epoch."""
    return _EPOCH + ms * _MILLISECOND


def _ceil_ms(fraction: str) -> int:
    return int(fraction[:3].ljust(3, "0")) + (fraction[3:].strip("0") != "")
