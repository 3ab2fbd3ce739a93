"""Reads a configuration: a TOML file, then dotted overrides, then validation with one-line errors."""

from __future__ import annotations

import copy
import difflib
import tomllib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

Config = TypeVar("Config", bound=BaseModel)


class ConfigError(ValueError):
    """A user's mistake in a configuration; its text is one line that says where, what and what is allowed."""


def load_config(
    kind: type[Config],
    path: Path | None = None,
    overrides: Sequence[str] = (),
    base: Mapping[str, Any] | None = None,
    ignored: Collection[str] = (),
) -> Config:
    """Read and validate a configuration.

    kind        the pydantic model to build
    path        TOML file; None for the defaults
    overrides   "section.key=value" texts, the value in TOML (bare words and comma lists are strings); later wins
    base        nested values to start from where there is no file, such as an earlier run's
    ignored     top-level keys of the file that are for other commands
    Raises ConfigError.
    """
    values = _read_toml(path) if path else copy.deepcopy(dict(base or {}))
    values = {key: value for key, value in values.items() if key not in ignored}
    origins = {}
    for override in overrides:
        dotted, value = _parse_override(override)
        _set(values, dotted.split("."), value, override)
        origins[dotted] = "command line"
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise ConfigError(_one_line(error, kind, str(path or "configuration"), origins, values)) from None


def with_values(config: Config, changes: Mapping[str, Any], source: str) -> Config:
    """The configuration with dotted keys changed, validated anew; `source` says where they come from in errors.

    Raises ConfigError.
    """
    kind, values = type(config), config.model_dump()
    for dotted, value in changes.items():
        _set(values, dotted.split("."), value, f"{dotted}={value}")
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise ConfigError(_one_line(error, kind, source, {}, values)) from None


def flatten_settings(values: Mapping[str, Any], kind: type[BaseModel], prefix: str = "") -> dict[str, Any]:
    """Nested tables as dotted keys: tables that are sections of `kind` are opened, those that are values are not."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        dotted = f"{prefix}{key}"
        if isinstance(value, Mapping) and _is_section_path(dotted.split("."), kind):
            flat |= flatten_settings(value, kind, f"{dotted}.")
        else:
            flat[dotted] = value
    return flat


def check_key(dotted: str, kind: type[BaseModel], source: str) -> None:
    """Raises ConfigError, with the nearest name, for a dotted key that is no setting of `kind`."""
    if dotted not in _all_keys(kind):
        raise ConfigError(f"{source}: unknown key {dotted}; {_nearest(dotted.split('.'), kind)}")


def _is_section_path(keys: list[str], kind: type[BaseModel]) -> bool:
    for key in keys:
        annotation = kind.model_fields[key].annotation if key in kind.model_fields else None
        if not _is_section(annotation):
            return False
        kind = annotation
    return True


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such configuration file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from None


def _parse_override(override: str) -> tuple[str, Any]:
    dotted, equals, text = override.partition("=")
    dotted, text = dotted.strip(), text.strip()
    if not equals or not dotted:
        raise ConfigError(f"command line: {override!r}; expected section.key=value, such as allocation.tau_low=0.4")
    try:
        return dotted, tomllib.loads(f"value = {text}")["value"]
    except (tomllib.TOMLDecodeError, KeyError):
        return dotted, [_parse_part(part.strip()) for part in text.split(",")] if "," in text else text


def _parse_part(text: str) -> Any:
    """One value of a comma list: in TOML where it is, else the bare words."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (tomllib.TOMLDecodeError, KeyError):
        return text


def _set(values: dict[str, Any], keys: list[str], value: Any, override: str) -> None:
    for key in keys[:-1]:
        values = values.setdefault(key, {})
        if not isinstance(values, dict):
            raise ConfigError(f"command line: {override!r}; {key} is a single value and has no keys")
    values[keys[-1]] = value


def _one_line(
    error: ValidationError, kind: type[BaseModel], source: str, origins: dict[str, str], values: dict[str, Any]
) -> str:
    first, others = error.errors()[0], _count_mistakes(error, values) - 1
    location = [str(part) for part in first["loc"]]
    dotted = ".".join(location)
    reason = first["msg"].removeprefix("Value error, ")
    concerned = dotted or reason.partition(" = ")[0]  # a check between sections has no place of its own
    where = next((origin for key, origin in origins.items() if _is_related(concerned, key)), source)
    more = f" (and {others} more)" if others else ""
    if first["type"] == "extra_forbidden":
        return f"{where}: unknown key {dotted}; {_nearest(location, kind)}{more}"
    if location[-1:] == ["[key]"]:
        table = ".".join(location[:-2])
        return f"{where}: {table} has the key {location[-2]}; {_expectation(first, reason, kind)}{more}"
    if first["type"] == "value_error" and not reason.startswith("expected"):
        return f"{where}: {reason}{more}"
    return f"{where}: {dotted} = {_shown(first['input'])}; {_expectation(first, reason, kind)}{more}"


def _count_mistakes(error: ValidationError, values: dict[str, Any]) -> int:
    """Places in the configuration that are wrong.

    Of one mistake pydantic may list each branch of a union, and for an item of a list the list as well.
    """
    places = {_place(found, values) for found in error.errors()}
    return sum(not any(other != place and other[: len(place)] == place for other in places) for place in places)


def _place(found: Any, values: Any) -> tuple[int | str, ...]:
    """The part of an error's location that the configuration holds; what is missing is a place of its own."""
    location = tuple(found["loc"])
    if found["type"] == "missing":
        return location
    for depth, part in enumerate(location):
        is_there = part in values if isinstance(values, dict) else part in range(len(values) if _is_list(values) else 0)
        if not is_there:
            return location[:depth]
        values = values[part]
    return location


def _is_list(values: Any) -> bool:
    return isinstance(values, (list, tuple))


def _is_related(dotted: str, override: str) -> bool:
    """Whether an error at `dotted` may come of an override: of the key itself, of a part or of the whole of it."""
    return f"{dotted}.".startswith(f"{override}.") or f"{override}.".startswith(f"{dotted}.")


def _expectation(first: dict[str, Any], reason: str, kind: type[BaseModel]) -> str:
    limits = _limits([str(part) for part in first["loc"]], kind)
    if limits.get("type") == "integer" and not {"maximum", "exclusiveMaximum"} & set(limits):
        return f"expected an integer of at least {limits.get('minimum', limits.get('exclusiveMinimum', 0) + 1)}"
    interval = _interval(limits)
    if first["type"] in ("int_type", "int_parsing", "int_from_float"):
        return f"expected an integer{' in ' + interval if interval else ''}"
    if first["type"] in ("float_type", "float_parsing") or interval:
        return f"expected a number{' in ' + interval if interval else ''}"
    if first["type"] in _EXPECTED:
        return "expected " + _EXPECTED[first["type"]].format(**first.get("ctx", {}))
    return reason.replace("Input should be", "expected", 1)


_EXPECTED = {
    "string_type": "a text",
    "string_too_short": "a text that is not empty",
    "path_type": "a path",
    "too_short": "at least {min_length} of them",
    "too_long": "at most {max_length} of them",
    "missing": "one value more",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a table, such as {{ key = value }}",
    "model_type": "a table of settings",
    "model_attributes_type": "a table of settings",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "greater_than": "more than {gt:g}",
    "greater_than_equal": "at least {ge:g}",
    "less_than": "less than {lt:g}",
    "less_than_equal": "at most {le:g}",
}
"""Kinds of pydantic's errors -> what was expected, in our words."""


def _limits(location: list[str], kind: type[BaseModel]) -> dict[str, Any]:
    """The part of a number's schema with its limits; empty for a field without."""
    properties = _section(kind, location[:-1]).model_json_schema()["properties"]
    schema = properties.get(location[-1], {})
    options = [schema, *schema.get("anyOf", [])]
    return next((option for option in options if any(name in option for name in _LIMITS)), {})


def _interval(limits: dict[str, Any]) -> str:
    """Both limits, such as `(0, 1)` or `[2, 1024]`; empty where there are none."""
    if not limits:
        return ""
    low = f"({limits['exclusiveMinimum']:g}" if "exclusiveMinimum" in limits else f"[{limits.get('minimum', '-inf')}"
    high = f"{limits['exclusiveMaximum']:g})" if "exclusiveMaximum" in limits else f"{limits.get('maximum', 'inf')}]"
    return f"{low}, {high.replace('inf]', 'inf)')}"


_LIMITS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")


def _nearest(location: list[str], kind: type[BaseModel]) -> str:
    names = list(_section(kind, location[:-1]).model_fields)
    matches = difflib.get_close_matches(location[-1], names, n=1, cutoff=0.5)
    if matches:
        return f"did you mean {'.'.join([*location[:-1], matches[0]])}?"
    anywhere = {name.rsplit(".", 1)[-1]: name for name in _all_keys(kind)}
    matches = difflib.get_close_matches(location[-1], list(anywhere), n=1, cutoff=0.6)
    if matches:
        return f"did you mean {anywhere[matches[0]]}?"
    return f"expected one of {', '.join(names)}"


def _section(kind: type[BaseModel], keys: list[str]) -> type[BaseModel]:
    for key in keys:
        annotation = kind.model_fields[key].annotation if key in kind.model_fields else None
        kind = annotation if _is_section(annotation) else kind
    return kind


def _is_section(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _all_keys(kind: type[BaseModel], prefix: str = "") -> list[str]:
    keys = []
    for name, field in kind.model_fields.items():
        if _is_section(field.annotation):
            keys += _all_keys(field.annotation, f"{prefix}{name}.")
        keys.append(prefix + name)
    return keys


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
