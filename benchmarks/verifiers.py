"""Speed of the verifiers and fuzz of the math verifier, measured beside plain math-verify in one run.

    python -m benchmarks.verifiers speed --golds math500.jsonl      responses a second, and where the two disagree
    python -m benchmarks.verifiers fuzz --count 100000              hostile answers: exceptions, slowest, memory

The golds come from a JSONL file with a field `answer` (MATH-500 or another set). Responses are made from them: the
gold in its own and in other spellings, golds of other problems, and answers cut off, after some reasoning.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from sara.verifiers import Verdict, verify_countdown, verify_math
from sara.verifiers.math import grade_math
from sara.verifiers.math.symbolic import symbolic_comparison
from sara.verifiers.math.syntax import names
from sara.verifiers.math.verification import forget

REASONING = (
    "Let me set up the problem. We write $f(x) = x^2 + 3x - 4$ and find that the roots satisfy $x = 1$ or $x = -4$.\n"
    "Then by the formula we have \\[ \\frac{a}{b} = \\frac{12}{30} = \\frac{2}{5}, \\] so that $a + b = 7$.\n"
) * 6
RIGHT_SHARE, CUT_SHARE = 0.5, 0.05


def respell(gold: str, rng: random.Random) -> str:
    """The gold as a model may write it."""
    changes: list[Callable[[str], str]] = [
        lambda text: text,
        lambda text: text.replace("\\frac", "\\dfrac"),
        lambda text: text.replace(" ", ""),
        lambda text: f"{text}.",
        lambda text: f"A = {text}",
        lambda text: f"\\text{{{text}}}" if text.isdigit() else text,
    ]
    return rng.choice(changes)(gold)


def make_responses(golds: list[str], count: int, seed: int) -> list[tuple[str, str]]:
    """Pairs of a response and the gold of its problem."""
    rng, pairs = random.Random(seed), []
    for _ in range(count):
        gold, chance = rng.choice(golds), rng.random()
        answer = respell(gold if chance < RIGHT_SHARE else rng.choice(golds), rng)
        ending = (
            f"The answer is $\\boxed{{{answer}}}$." if chance < 1 - CUT_SHARE else f"The answer is \\boxed{{{answer}"
        )
        pairs.append((REASONING + ending, gold))
    return pairs


def make_countdown_responses(count: int, seed: int) -> list[tuple[str, list[int], int]]:
    """Responses of the same length to Countdown problems, half of them right, with the numbers and the target."""
    rng, asked = random.Random(seed), []
    for _ in range(count):
        a, b, c = (rng.randint(1, 99) for _ in range(3))
        target = a + b - c + (rng.random() >= RIGHT_SHARE)
        asked.append((f"{REASONING}<answer>({a} + {b}) - {c}</answer>", [a, b, c], target))
    return asked


def verify_without_memory(response: str, gold: str) -> bool:
    """Every gold read anew and every comparison made anew, as the other side does."""
    forget()
    return verify_math(response, gold) is Verdict.RIGHT


def verify_plainly(response: str, gold: str) -> bool:
    """What math-verify's own documentation does."""
    from math_verify import parse, verify

    return verify(parse(f"${gold}$"), parse(response))


def measure_speed(golds: list[str], count: int, seed: int) -> None:
    pairs = make_responses(golds, count, seed)
    symbolic_comparison().start()
    verify_plainly("$1$", "1")  # both sides pay for their imports before the clock starts
    verifiers = {"sara": verify_without_memory, "math-verify": verify_plainly}
    turns: dict[str, list[bool]] = {name: [] for name in verifiers}
    spent = dict.fromkeys(turns, 0.0)
    for start in range(0, count, 50):  # in turns, so that a busy machine slows both alike
        for name, verify in verifiers.items():
            begin = time.perf_counter()
            turns[name] += [verify(response, gold) for response, gold in pairs[start : start + 50]]
            spent[name] += time.perf_counter() - begin
    countdown = make_countdown_responses(count, seed)
    begin = time.perf_counter()
    right = sum(verify_countdown(*asked) is Verdict.RIGHT for asked in countdown)
    seconds = time.perf_counter() - begin
    print(f"{'countdown':12} {count / seconds:9.0f} responses/s   right {right / count:.3f}, on responses of its own")
    print(f"ratio        {spent['math-verify'] / seconds:9.1f}")
    for name, seconds in spent.items():
        print(f"{name:12} {count / seconds:9.0f} responses/s   right {sum(turns[name]) / count:.3f}")
    print(f"ratio        {spent['math-verify'] / spent['sara']:9.1f}")
    pairs_of_verdicts = zip(turns["sara"], turns["math-verify"], strict=True)
    differences = [place for place, (a, b) in enumerate(pairs_of_verdicts) if a != b]
    print(f"they disagree on {len(differences)} of {count}; the first:")
    for place in differences[:20]:
        print(f"  sara {turns['sara'][place]!s:5}  gold {pairs[place][1]}  response ...{pairs[place][0][-70:]!r}")


PIECES = sorted(
    names(
        r"\frac \sqrt \binom \overline \text \mathrm \left( \right) \boxed \infty \pi \pm \cup \in \le \{ \} { } "
        r"( ) [ ] | ^ _ ! % , ; : = < > + - * / . 0 1 9 12 345 x y e i sin \sin \log \tan \lfloor \rfloor \cdot \$ $ "
        r"\, ~ and cm \mid \max \sum_{k=1}^{ \prod_{n=1}^{ \int_0^ \lim_{x\to0} 99999999 9^{9^{9 "
        r"(10^{10})! √ ½ ² ∞ − __import__('os')"
    )
)


def large_collection(rng: random.Random) -> str:
    """A set, list, point, union or matrix of very many members."""
    members = [
        lambda i: str(i),
        lambda i: f"x+{i}",
        lambda i: f"\\sqrt{{{i + 2}}}",
        lambda i: f"\\frac{{{i}}}{{7}}",
        lambda i: f"({i},{i + 1})",
        lambda i: f"\\pm {i}",
    ]
    opening, joint, closing = rng.choice(
        [
            (r"\{", ",", r"\}"),
            ("", ",", ""),
            ("(", ",", ")"),
            ("", r"\cup", ""),
            (r"\begin{pmatrix}", "&", r"\end{pmatrix}"),
            ("", r" \text{ or } ", ""),
            (r"\max(", ",", ")"),
        ]
    )
    member = rng.choice(members)
    return opening + joint.join(member(i) for i in range(rng.randint(2, 600))) + closing


def hostile_answers(count: int, seed: int) -> Iterator[str]:
    """Random pieces, repeated pieces, large sets and long points, integrals and sums, and deep brackets."""
    rng = random.Random(seed)
    for _ in range(count):
        kind = rng.random()
        if kind < 0.7:
            yield "".join(rng.choice(PIECES) for _ in range(rng.randint(1, 30)))
        elif kind < 0.8:
            yield rng.choice(PIECES) * rng.randint(1, 2_000)
        elif kind < 0.897:
            yield large_collection(rng)
        elif kind < 0.9:
            operator = rng.choice(
                [r"\int_0^{10}", r"\sum_{x=1}^{\infty}", r"\lim_{x\to\infty}", r"\prod_{x=1}^{\infty}"]
            )
            terms = [r"x^{x}", r"\sin(x)", r"e^{x^{2}}", r"\ln(x+1)", r"\frac{1}{x}", r"\sqrt{x+2}", "(x+1)^{20}", "3"]
            yield f"{operator} {' '.join(rng.choice(terms) for _ in range(rng.randint(1, 5)))} dx"
        else:
            depth = rng.randint(1, 300)
            yield rng.choice(["(", "{", "\\frac{1}{", "|", "2^{"]) * depth + "7" + rng.choice([")", "}", "|"]) * depth


def measure_fuzz(count: int, seed: int) -> None:
    golds = ["7", r"\frac{1}{2}", "x^2+1", "(1,2)", r"\{1,2\}", "[2,5)", "x=5", "28_9", r"\text{east}", r"\sin x"]
    golds += [r"\{" + ",".join(f"x+{i}" for i in range(50)) + r"\}", r"\{x,y,z\}", r"\begin{pmatrix}1\\2\end{pmatrix}"]
    symbolic_comparison().start()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    reasons, times, begin = Counter(), [], time.perf_counter()
    for place, answer in enumerate(hostile_answers(count, seed)):
        start, start_waiting = time.perf_counter(), time_in_line()
        grade = grade_math(f"\\boxed{{{answer}}}", golds[place % len(golds)])
        wall, waited = time.perf_counter() - start, time_in_line() - start_waiting
        times.append((wall, wall - waited, grade.reason, answer[:60]))
        reasons[grade.verdict.value, grade.reason] += 1
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"{count} answers in {time.perf_counter() - begin:.0f} s, {os.getloadavg()[1]:.0f} processes wanting to run")
    for name, column in (("by the clock", 0), ("less the time this process stood in line for a processor", 1)):
        slowest = max(times, key=lambda item, column=column: item[column])
        over = sum(item[column] > 1 for item in times)
        print(f"slowest {name}: {slowest[column]:.2f} s ({slowest[2]}: {slowest[3]!r}); over one second: {over}")
    print(f"memory of this process grew by {(after - before) / 1024:.0f} MiB (the cache of verdicts among it)")
    for (verdict, reason), number in reasons.most_common():
        print(f"{number:8} {verdict:10} {reason}")


def time_in_line() -> float:
    """Seconds for which this thread was ready to run and had no processor, as Linux counts it."""
    return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measure", choices=["speed", "fuzz"])
    parser.add_argument("--golds", type=Path, help="JSONL with a field `answer`")
    parser.add_argument("--count", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    if chosen.measure == "fuzz":
        measure_fuzz(chosen.count, chosen.seed)
        return
    if chosen.golds is None or not chosen.golds.is_file():
        parser.error(f"--golds {chosen.golds}: expected a JSONL file with a field `answer`")
    lines = chosen.golds.read_text(encoding="utf-8").splitlines()
    measure_speed([json.loads(line)["answer"] for line in lines], chosen.count, chosen.seed)


if __name__ == "__main__":
    main()
