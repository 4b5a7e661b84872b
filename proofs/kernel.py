"""What the kernel's programs store at [n, t] is the definition: the shipped source, executed on symbols.

Loads, masks, tiles, runs, shifts, carries, the split of time over programs, stores and the arithmetic of the launch are
all inside: `launches.py` calls the public function and runs what it launches, `symbolic_triton.py` is the language.
Holds over the exact reals (rounding is bounded by `rounding.py`). Sampled: N, T and the tiles, as each scope says;
`induction.py` carries the result to every T. A program that reads or writes beside a tensor, writes a place twice,
leaves a result unwritten or waits for ever differs from the definition. A twin is the shipped source with one
expression replaced, or a launch with one argument wrong.
"""

from .executions import TARGETS, Change, far, poisoned, relatives, shared, stored, unchanged, wider
from .kernel_twins import TWINS
from .registry import DEEP, Cases, statement
from .symbolic_triton import Edit

Edits = tuple[Edit, ...]

SCOPE = "every pattern of none, terminated, truncated, both, a row each, "
CUTS = (
    "[N, T] and [T, N]; packed, gapped and transposed memory, another for every argument; tiles of 1, 2 and 4 steps in "
    "runs of 1, 2 and 4, read together or run by run, walked by one program, a program each or two; "
    "γ, λ, carry in full, as numbers, in memory; features"
)
EPISODIC = f"{SCOPE}T = 3 for every choice of bootstrap and T = 5; a few patterns at T = 4 and 14; {CUTS}"
WEIGHTED = f"{SCOPE}T = 3 for every choice of arguments, T = 5 without truncations; a few at T = 4 and 6; {CUTS}"
FORWARD = f"every pattern of flags, a row each, T = 3 and 5; a few at T = 4 and 14; {CUTS}"


@statement(scope=EPISODIC, twins=TWINS["the_kernel_stores_gae"])
def the_kernel_stores_gae(edits: Edits = (), change: Change = unchanged) -> Cases:
    """What the programs of a GAE launch store at [n, t] is A_t and R_t of row n."""
    yield from stored("gae", edits=edits, change=change)


@statement(scope=EPISODIC, twins=TWINS["the_kernel_stores_td_lambda"])
def the_kernel_stores_td_lambda(edits: Edits = (), change: Change = unchanged) -> Cases:
    """What the programs of a TD(λ) launch store at [n, t] is G_t of row n."""
    yield from stored("td_lambda", edits=edits, change=change)


@statement(scope=EPISODIC, twins=TWINS["the_kernel_stores_discounted_returns"])
def the_kernel_stores_discounted_returns(edits: Edits = (), change: Change = unchanged) -> Cases:
    """What the programs of a discounted-return launch store at [n, t] is G_t of row n."""
    yield from stored("discounted_returns", edits=edits, change=change)


@statement(scope=WEIGHTED, twins=TWINS["the_kernel_stores_vtrace"])
def the_kernel_stores_vtrace(edits: Edits = (), change: Change = unchanged) -> Cases:
    """What the programs of a V-trace launch store at [n, t] is v_t and the advantage of row n, in either form."""
    yield from stored("impala vtrace", edits=edits, change=change)
    yield from stored("mixed vtrace", edits=edits, change=change, among=relatives)


@statement(
    scope=f"{WEIGHTED}; 2 and 4 actions in blocks of 1, 2 and 4",
    twins=TWINS["the_kernel_stores_retrace"],
)
def the_kernel_stores_retrace(edits: Edits = (), change: Change = unchanged) -> Cases:
    """What the programs of a Retrace launch store at [n, t] is the target Q_t + Δ_t of row n, for every trace."""
    yield from stored("retrace", edits=edits, change=change)
    yield from stored("tree_backup", "importance", "q_lambda", edits=edits, change=change, among=relatives)


@statement(scope=FORWARD, twins=TWINS["the_kernel_stores_eligibility_traces"])
def the_kernel_stores_eligibility_traces(edits: Edits = (), change: Change = unchanged) -> Cases:
    """What the programs of a trace launch store at [n, t] is z_t of row n."""
    yield from stored("eligibility_traces", edits=edits, change=change)


@statement(scope=FORWARD, twins=TWINS["the_kernel_stores_prefix_sums"])
def the_kernel_stores_prefix_sums(edits: Edits = (), change: Change = unchanged) -> Cases:
    """What the programs of a prefix-sum launch store at [n, t] is C_t of row n, for both flag conventions."""
    yield from stored("ends_at prefix_sum", "starts_at prefix_sum", edits=edits, change=change)


@statement(
    scope=f"{FORWARD}; both directions, every choice of zeros among the β",
    twins=TWINS["the_kernel_stores_linear_scans"],
)
def the_kernel_stores_linear_scans(edits: Edits = (), change: Change = unchanged) -> Cases:
    """What the programs of a linear-scan launch store at [n, t] is x_t of row n, in both directions."""
    yield from stored("linear_scan", "reverse linear_scan", edits=edits, change=change)


@statement(
    scope="T = 6 and 15, a few patterns; groups of 2 and 16 tiles in 1, 2 and 3 levels, with blocks folded beforehand; "
    "programs of one tile and of two; "
    "float32 and float64; programs in the order of their numbers, and the last first; forward and backward",
    twins=TWINS["programs_that_share_rows_meet"],
)
def programs_that_share_rows_meet(edits: Edits = (), change: Change = unchanged) -> Cases:
    """Where programs share a row, every one finds the x behind its tiles, in either order, and none waits for one that
    comes after it."""
    yield from stored("discounted_returns", "eligibility_traces", "gae", edits=edits, change=change, among=shared)


@statement(
    scope="T = 3, every pattern, a row for each entry that is undefined; walked and shared tiles",
    twins=TWINS["the_kernel_uses_what_the_definition_uses"],
)
def the_kernel_uses_what_the_definition_uses(edits: Edits = ()) -> Cases:
    """An undefined entry makes exactly those stored results undefined whose definition uses it: nothing of another row,
    of another episode, or of a step outside the window."""
    names = ("gae", "discounted_returns", "eligibility_traces", "linear_scan", "impala vtrace", "retrace")
    yield from stored(*names, edits=edits, among=poisoned)


@statement(
    scope=f"T = 5, {SCOPE}for every choice of arguments; [N, T] and [T, N], four cuts, four patterns of strides",
    twins=TWINS["the_kernel_stores_every_definition_at_five_steps"],
    into=DEEP,
)
def the_kernel_stores_every_definition_at_five_steps(edits: Edits = ()) -> Cases:
    """For every estimator, every choice of its arguments, every layout and cut: what is stored at [n, t] is the
    definition."""
    yield from stored(*TARGETS, edits=edits, among=wider)


@statement(
    scope="T = 3, every pattern, a row each, uint8 flags whose last row lies 2^31 elements behind the first",
    twins=TWINS["offsets_beyond_32_bits_are_right"],
    into=DEEP,
)
def offsets_beyond_32_bits_are_right(edits: Edits = (), change: Change = unchanged) -> Cases:
    """Where an offset passes 2^31 the kernel counts in 64 bits, and stores the definition."""
    yield from stored("gae", "eligibility_traces", edits=edits, change=change, among=far)
