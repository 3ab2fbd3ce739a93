"""SARA: sequential adaptive rollout allocation for reinforcement learning with verifiable rewards.

The science of the project: beliefs and allocators, selectors, the collection loop, engines, verifiers,
datasets, losses and the learner. Nothing here knows of Prefect or MLflow; values go in, values come out.
"""
