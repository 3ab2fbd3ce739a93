"""Replay: what SARA would have generated and kept on the groups of a log that exists already."""

from sara.replay.columns import parse_mapping
from sara.replay.drive import Driven, drive
from sara.replay.grouplog import GroupLog
from sara.replay.reading import read_log
from sara.replay.replay import replay_log
from sara.replay.report import Replay, as_json, as_text
from sara.replay.results import GridResult, replay_grid
from sara.replay.settings import Grid, Setting
from sara.replay.source import LoggedOrder, LoggedRollouts, shuffled_order

__all__ = [
    "Driven",
    "Grid",
    "GridResult",
    "GroupLog",
    "LoggedOrder",
    "LoggedRollouts",
    "Replay",
    "Setting",
    "as_json",
    "as_text",
    "drive",
    "parse_mapping",
    "read_log",
    "replay_grid",
    "replay_log",
    "shuffled_order",
]
