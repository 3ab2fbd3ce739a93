"""The code's version changes with what the code does, not with how it is written down."""

from __future__ import annotations

from sara.code_version import _meaning, code_version, git_commit


def test_comments_docstrings_and_formatting_are_no_other_version():
    one = 'def f(x):\n    """Twice."""\n    return 2 * x\n'
    other = "# A comment.\ndef f(x):\n    return (2\n            * x)\n"
    assert _meaning(one) == _meaning(other)
    assert _meaning(one) != _meaning(one.replace("2 * x", "3 * x"))


def test_the_version_is_the_same_at_every_call():
    assert code_version() == code_version()
    assert len(code_version()) == 12


def test_the_commit_is_a_hash_or_nothing():
    commit = git_commit().removesuffix("-dirty")
    assert commit == "" or (len(commit) == 40 and set(commit) <= set("0123456789abcdef"))
