"""The learner: turns scored rollouts into weight updates. Start reading at `Learner.update`."""

from sara.learner.examples import TrainingExample
from sara.learner.learner import Learner, TrainingDiverged

__all__ = ["Learner", "TrainingDiverged", "TrainingExample"]
