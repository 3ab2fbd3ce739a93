"""Simulation: populations of success rates, exact costs, and whole runs without a model. No torch."""
