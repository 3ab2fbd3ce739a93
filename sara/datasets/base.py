"""The contract of a data set: where its problems come from, and what a problem is.

Owns `Problem`, and `Dataset`, what a member of the registry says of itself. Never knows which model
will read a problem.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from sara.verifiers import Verifier

if TYPE_CHECKING:
    from sara.config import DataConfig

Split = Literal["train", "heldout"]
Row = Mapping[str, Any]
"""One problem of a file or of the hub, under the field names of its data set."""


def _whole_text(response: str) -> str | None:
    return response.strip() or None


def _alike(answer: str, other: str) -> bool:
    return answer.split() == other.split()


def _nothing_to_start() -> None:
    pass


@dataclass(frozen=True)
class Problem:
    """One prompt with its reference answer.

    id            unique inside its data set, stable across runs
    text          the prompt's text, before any instruction of the prompt's style and any chat template
    reference     plain JSON values that the verifier was built from, kept for artifacts
    verify        verifier bound to this problem
    answer        what a response gives as its answer; None for a response without one
    is_same       whether two answers are one, where votes are counted
    get_ready     begins to start what `verify` needs, and returns at once; called before the first response is there
    instruction   how an answer has to be written, where `text` does not say it
    subject       what it is about; None where the data do not say
    level         how hard it is, 1 the easiest; None where the data do not say
    identity      equal for problems that ask the same thing, whatever their ids
    place         file and line that it was read from; empty for one that was made
    """

    id: str
    text: str
    reference: dict[str, Any]
    verify: Verifier = field(repr=False, compare=False)
    answer: Callable[[str], str | None] = field(default=_whole_text, repr=False, compare=False)
    is_same: Callable[[str, str], bool] = field(default=_alike, repr=False, compare=False)
    get_ready: Callable[[], None] = field(default=_nothing_to_start, repr=False, compare=False)
    instruction: str = ""
    subject: str | None = None
    level: int | None = None
    identity: Hashable = None
    place: str = field(default="", repr=False, compare=False)

    @property
    def where(self) -> str:
        """What a person finds it by: where it was read, or else its id."""
        return self.place or self.id

    @property
    def content(self) -> Hashable:
        """What two problems share that ask the same thing: `identity`, or else the text without its typesetting."""
        return self.identity if self.identity is not None else normalised_text(self.text)


_SPACING = re.compile(r"\\(?:left|right|displaystyle|quad|qquad|[,;:!> ])(?![a-zA-Z])|~")
_PLAIN_FORMS = (("\\dfrac", "\\frac"), ("\\tfrac", "\\frac"), ("\\cdot", "*"), ("\\times", "*"))


def normalised_text(text: str) -> str:
    """A problem's text without what only its typesetting changes: case, spaces, dollar signs, sizes of brackets.

    Two texts that are equal after this ask the same thing.
    """
    text = unicodedata.normalize("NFKC", text).casefold()
    for typeset, plain in _PLAIN_FORMS:
        text = text.replace(typeset, plain)
    text = _SPACING.sub("", text)
    return re.sub(r"[\s$]+|\\[()\[\]]", "", text).rstrip(".?!")


@dataclass(frozen=True)
class HubSource:
    """Where a public set lies on the Hugging Face hub.

    name       repository
    revision   commit that is read unless the configuration names another
    splits     the hub's split that each side is read from
    """

    name: str
    revision: str
    splits: Mapping[Split, str]


@dataclass(frozen=True)
class Field:
    """A value that a row may have.

    columns       where it is looked for
    is_required   whether it has to be there
    instead       another field of the row that will do where this one, then required, is absent
    """

    columns: tuple[str, ...]
    is_required: bool = True
    instead: str | None = None


def _every_problem(problem: Problem, split: Split) -> bool:
    return True


def _no_fault(problem: Problem) -> str | None:
    return None


@dataclass(frozen=True)
class Dataset:
    """A member of the registry.

    title       what it is, in a line
    fields      what a row of it has
    read        problem of a row; its second argument is the row's place, for an id and for errors (ValueError)
    generate    problems of one side made by code; None for a set that is read
    hub         where it is read from unless the configuration names a file
    is_of_side  which of the hub's rows belong to a side, where both sides are read from one split
    fault       why a problem's reference cannot be scored against; None if it can
    """

    title: str
    fields: Mapping[str, Field]
    read: Callable[[Row, str], Problem]
    generate: Callable[[DataConfig, Split], list[Problem]] | None = None
    hub: HubSource | None = None
    is_of_side: Callable[[Problem, Split], bool] = _every_problem
    fault: Callable[[Problem], str | None] = _no_fault
