"""`python -m rlscan.proofs [--deep] [WORD ...]`: checks every statement, or those whose file or name contains a word.

With --deep also the statements that take minutes. The exit code is 1 on any failure.
"""

import sys
from collections.abc import Sequence

from .registry import DEEP, STATEMENTS, Result, Statement, run


def line(result: Result) -> str:
    rejected = sum(twin.rejected for twin in result.twins)
    verdict = "proved" if result.passed else "FAILED"
    return (
        f"{verdict}  {result.name:<70} {result.cases:>7} cases  "
        f"{rejected}/{len(result.twins)} twins rejected  {result.seconds:6.2f} s"
    )


def findings(result: Result) -> list[str]:
    """What went wrong, in words."""
    found = [] if result.proved else [f"  differs: {result.finding}"]
    return found + [f"  twin {twin.name!r}: {twin.finding}" for twin in result.twins if not twin.rejected]


def main(words: Sequence[str] = (), statements: Sequence[Statement] = STATEMENTS) -> int:
    chosen = [
        claim
        for claim in statements
        if not words or any(word in f"{claim.prove.__module__}.{claim.name}" for word in words)
    ]
    if not chosen:
        print(f"no statement contains {' or '.join(map(repr, words))}", file=sys.stderr)
        return 2
    results = run(lambda result: print(line(result), *findings(result), sep="\n", flush=True), chosen)
    failed = [result for result in results if not result.passed]
    print(
        f"{len(results) - len(failed)} of {len(results)} statements proved over {sum(r.cases for r in results)} cases, "
        f"{sum(len(r.twins) for r in results)} twins, {sum(r.seconds for r in results):.1f} s"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    deep = "--deep" in sys.argv
    sys.exit(main([word for word in sys.argv[1:] if word != "--deep"], [*STATEMENTS, *(DEEP if deep else ())]))
