"""A population of success rates in the place of an engine; it lives with the simulator, which loads no torch."""

from sara.simulation.source import PopulationSource

__all__ = ["PopulationSource"]
