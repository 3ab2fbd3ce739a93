"""Selection: which prompts to open. numpy only."""

from sara.selection.base import Evidence, Selector
from sara.selection.dps import DPSBeliefs, DPSSelector
from sara.selection.ranking import RankingSelector
from sara.selection.shuffle import ShuffleSelector

SELECTORS: dict[str, type[Selector]] = {
    "uniform": ShuffleSelector,
    "dps": DPSSelector,
}

__all__ = ["SELECTORS", "DPSBeliefs", "DPSSelector", "Evidence", "RankingSelector", "Selector", "ShuffleSelector"]
