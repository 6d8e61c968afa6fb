"""The text of a path: one dotted TOML key, read into literal segments and written back canonically."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Final, final

from wf_core.errors import WfError


class PathResolutionError(WfError, ValueError):
    """A path text is no path (``path_invalid``), or a walk met a missing key or a non-object (``path_missing``)."""

    default_code = "path_invalid"


_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
_DOTTED_BARE: Final = re.compile(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*")
_BASIC_RUN: Final = re.compile(r'[^"\\]+')
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")
_BLANKS: Final = " \t"
_ESCAPES: Final = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r", '"': '"', "\\": "\\"}
_HEX_ESCAPES: Final = {"u": re.compile(r"[0-9A-Fa-f]{4}"), "U": re.compile(r"[0-9A-Fa-f]{8}")}


def parse_toml_path_segments(text: str) -> tuple[str, ...]:
    """The decoded segments of a text that is exactly one dotted TOML key; raises ``PathResolutionError``."""
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # models may be overwritten freely
        raise PathResolutionError(f"invalid TOML path {text!r}: a path is written as a string")
    if _DOTTED_BARE.fullmatch(text):
        return tuple(text.split("."))
    return _TomlKeyReader(text).read()


def format_toml_path_segments(parts: Iterable[str]) -> str:
    """The canonical text of the segments: bare where TOML allows it, double-quoted otherwise."""
    return ".".join(
        part if _BARE.fullmatch(part) else json.dumps(part, ensure_ascii=False)  # JSON's escapes are TOML's too
        for part in parts
    )


def shown_place(steps: Iterable[str | int], *, below: str = "") -> str:
    """A place in a JSON value as messages show it: keys as in a path, list positions in brackets, ``scores[1]."a.b"``.

    ``below`` is what the value itself is called.
    Any key can be shown, also one that no path can name, such as an empty one.
    """
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{_shown_key(step)}" for step in steps)
    return below + text if below else text.removeprefix(".")


def _shown_key(key: str) -> str:
    if _BARE.fullmatch(key):
        return key
    return json.dumps(key, ensure_ascii=_SURROGATE.search(key) is not None).replace("\x7f", "\\u007f")


@final
class _TomlKeyReader:
    """Reads one dotted key from start to end; whatever else stands in the text is an error."""

    __slots__ = ("_at", "_text")

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def read(self) -> tuple[str, ...]:
        self._skip_blanks()
        segments = [self._key()]
        self._skip_blanks()
        while self._peek() == ".":
            self._at += 1
            self._skip_blanks()
            segments.append(self._key())
            self._skip_blanks()
        if self._at != len(self._text):
            raise self._error(f"unexpected {self._peek()!r} at character {self._at + 1}, quote keys that are not bare")
        return tuple(segments)

    def _key(self) -> str:
        quote = self._peek()
        if quote == '"':
            segment = self._basic()
        elif quote == "'":
            segment = self._literal()
        else:
            segment = self._bare()
        if (fault := segment_fault(segment)) is not None:
            raise self._error(fault)
        return segment

    def _bare(self) -> str:
        match = _BARE.match(self._text, self._at)
        if match is None:
            if self._peek() in ("", "."):
                raise self._error("empty path segment")
            raise self._error(f"unexpected {self._peek()!r} at character {self._at + 1}, quote keys that are not bare")
        self._at = match.end()
        return match.group()

    def _literal(self) -> str:
        end = self._text.find("'", self._at + 1)
        if end < 0:
            raise self._error("unterminated quote")
        segment = self._text[self._at + 1 : end]
        self._at = end + 1
        return segment

    def _basic(self) -> str:
        pieces: list[str] = []
        self._at += 1
        while True:
            match self._peek():
                case "":
                    raise self._error("unterminated quote")
                case '"':
                    self._at += 1
                    return "".join(pieces)
                case "\\":
                    pieces.append(self._escape())
                case _:
                    run = _BASIC_RUN.match(self._text, self._at)
                    assert run is not None
                    pieces.append(run.group())
                    self._at = run.end()

    def _escape(self) -> str:
        letter = self._text[self._at + 1 : self._at + 2]
        self._at += 2
        if letter in _ESCAPES:
            return _ESCAPES[letter]
        digits = _HEX_ESCAPES[letter].match(self._text, self._at) if letter in _HEX_ESCAPES else None
        if digits is None:
            raise self._error(f"unknown or incomplete escape '\\{letter}'")
        self._at = digits.end()
        code_point = int(digits.group(), 16)
        if code_point > 0x10FFFF:
            raise self._error(f"escape '\\{letter}{digits.group()}' is no Unicode character")
        return chr(code_point)

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _skip_blanks(self) -> None:
        while self._at < len(self._text) and self._text[self._at] in _BLANKS:
            self._at += 1

    def _error(self, reason: str) -> PathResolutionError:
        return PathResolutionError(
            f"invalid TOML path {self._text!r}: {reason}",
            hint="write dotted keys such as state.person.name, and quote a key that holds other characters",
        )


def segment_fault(segment: object) -> str | None:
    """Why the value cannot be a segment, or None when it can."""
    if not isinstance(segment, str):
        return f"segment {segment!r} is not a string"
    if _BARE.fullmatch(segment):
        return None
    if segment == "" or segment.isspace():
        return f"empty path segment {segment!r}"
    if _CONTROL.search(segment):
        return f"control characters are not allowed in segment {segment!r}"
    if _SURROGATE.search(segment):
        return f"lone surrogates are not allowed in segment {segment!r}"
    return None
