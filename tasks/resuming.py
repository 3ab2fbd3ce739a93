"""Going on with a run that was interrupted: which one, with which settings, and whether it may.

Owns `config.json` and `result.json` of a run's folder. What a checkpoint holds is `tasks.checkpointing`'s.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from sara.config import ExperimentConfig
from tasks.outbox import write_whole
from tasks.run_folder import newest_folder

CONFIG, RESULT = "config.json", "result.json"
_MAY_CHANGE = ("name", "output_dir", "checkpoint", "tracking.when_absent", "tracking.wait_s")
"""Settings that decide no number of a run, so that a run may go on with others."""

Config = TypeVar("Config", bound=ExperimentConfig)
Result = TypeVar("Result", bound=BaseModel)


def keep_config(config: ExperimentConfig, folder: Path) -> Path:
    """Write the configuration into the run's folder; returns the file."""
    write_whole(folder / CONFIG, config.model_dump_json(indent=2))
    return folder / CONFIG


def kept_config(kind: type[Config], folder: Path) -> Config | None:
    """The configuration that a run was started with, with the defaults of today for what it did not know.

    Raises ValueError if it cannot be read.
    """
    try:
        return kind.model_validate_json((folder / CONFIG).read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError as error:
        reason = error.errors()[0]
        where = ".".join(map(str, reason["loc"]))
        raise ValueError(f"{folder / CONFIG}: {where}: {reason['msg']}; it is not of this version") from None


def settings_to_resume(config: Config, allow: Sequence[str] = ()) -> Config:
    """The settings of the newest run of this name, save those that `config` sets.

    So a command that goes on with a run need not repeat what it was started with. Raises ValueError as
    `require_same_settings` does, and if no such run has left anything.
    """
    folder = newest_folder(config.output_dir / config.name)
    kept = kept_config(type(config), folder)
    if kept is None:
        raise ValueError(f"{folder}: no run to go on with; start one without --resume, or name another: name=...")
    said = config.model_dump(exclude_unset=True)
    filled = type(config).model_validate(_merged(kept.model_dump(), said))
    require_same_settings(filled, folder, allow)
    return filled


def require_same_settings(config: Config, folder: Path, allow: Sequence[str]) -> dict[str, tuple[Any, Any]]:
    """The settings that differ from those that the run in the folder was started with: key -> (then, now).

    allow   settings, or sections, that are meant to differ
    Raises ValueError for any other difference, and for a name in `allow` that is no setting.
    """
    now = _flat(config.model_dump(mode="json"))
    _require_known(allow, now)
    kept = kept_config(type(config), folder)
    then = now if kept is None else _flat(kept.model_dump(mode="json"))
    differing = [key for key in {**then, **now} if then.get(key) != now.get(key) and not _is_part_of(key, _MAY_CHANGE)]
    refused = [key for key in differing if not _is_part_of(key, allow)]
    if refused:
        listed = ", ".join(f"{key} was {json.dumps(then.get(key))}, now {json.dumps(now.get(key))}" for key in refused)
        raise ValueError(
            f"{folder}: the run was started with other settings: {listed}; "
            f"give those it was started with, or say that they are meant: --allow {','.join(refused)}"
        )
    return {key: (then.get(key), now.get(key)) for key in differing}


def keep_result(result: BaseModel, folder: Path) -> None:
    """Note that the run in the folder has finished, and with what."""
    write_whole(folder / RESULT, result.model_dump_json(indent=2))


def kept_result(kind: type[Result], folder: Path) -> Result | None:
    """What a finished run left; None if it has not finished."""
    path = folder / RESULT
    return kind.model_validate_json(path.read_bytes()) if path.exists() else None


def forget_result(folder: Path) -> None:
    """A finished run is to take further steps."""
    (folder / RESULT).unlink(missing_ok=True)


def _merged(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    both = {key: _merged(under[key], over[key]) for key in over if _are_sections(under.get(key), over[key])}
    return {**under, **over, **both}


def _are_sections(under: Any, over: Any) -> bool:
    """Of a table with keys of its own, such as data.sizes, the newer one replaces the older."""
    return all(isinstance(value, Mapping) and all(isinstance(key, str) for key in value) for value in (under, over))


def _flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat


def _is_part_of(key: str, names: Sequence[str]) -> bool:
    return any(f"{key}.".startswith(f"{name}.") for name in names)


def _require_known(allow: Sequence[str], settings: Mapping[str, Any]) -> None:
    unknown = [name for name in allow if not any(_is_part_of(key, [name]) for key in settings)]
    if unknown:
        raise ValueError(f"--allow {unknown[0]}: no such setting; expected names such as training.steps")
