"""What a call does, and why: the path, the tile, the kernel and the bytes it moves."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .. import language
from .plan import Plan, remembered
from .tiles import Tile


@dataclass(frozen=True)
class Explanation:
    """One call as it ran. Sizes are bytes; what does not exist on the path taken is None."""

    estimator: str
    path: str  # "triton", "interpreter" or "portable"
    reason: str
    rows: int
    steps: int
    compute_dtype: str
    bytes_read: int  # each input byte once
    bytes_written: int
    tile: Tile | None = None
    programs: int | None = None
    scratch_bytes: int | None = None  # where programs that share rows meet
    registers: int | None = None  # a thread
    spills: int | None = None  # registers a thread that went to memory
    shared_bytes: int | None = None  # a program
    launcher: str | None = None

    def __str__(self) -> str:
        lines = [
            f"{self.estimator}: {self.rows} rows of {self.steps} steps, computed in {self.compute_dtype}",
            f"path        {self.path}: {self.reason}",
            f"traffic     {self.bytes_read:,} bytes read, {self.bytes_written:,} written",
        ]
        if self.tile is not None:
            tile = self.tile
            shared = "each program walks over time"
            if tile.group and self.scratch_bytes:
                shared = f"each walks over {tile.walk} tiles, twice" if tile.walk > 1 else "each tile is a program"
            run = f"{tile.run} steps a thread" + ", which it reads itself" * (tile.vector > 0)
            lines += [
                f"tile        {tile.rows} rows x {tile.steps} steps, {run}, {tile.warps} warps",
                f"programs    {self.programs}: {shared}; {self.scratch_bytes} bytes to meet in",
            ]
        if self.registers is not None:
            lines.append(
                f"kernel      {self.registers} registers a thread, {self.spills} spilled, "
                f"{self.shared_bytes} bytes of shared memory; launched by {self.launcher}"
            )
        return "\n".join(lines)


def explain(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Explanation:
    """Calls `function` (rlscan.gae, ...) with these arguments once and says what ran.

    Returns:
        An Explanation; printed, it is a few lines of text.

    Raises:
        What the call itself raises; TypeError if `function` is not an estimator of rlscan.

    >>> import torch
    >>> import rlscan
    >>> inputs, ends = torch.zeros(4, 16), torch.zeros(4, 16, dtype=torch.bool)
    >>> rlscan.explain(rlscan.prefix_sum, inputs, ends).bytes_read
    320
    """
    import rlscan

    if function is explain or not any(getattr(rlscan, name) is function for name in rlscan.__all__ if name.islower()):
        raise TypeError(f"function is {function!r}; it should be an estimator of rlscan, such as rlscan.gae")
    (plan,) = remembered(lambda: function(*args, **kwargs))
    return of_plan(plan)


def of_plan(plan: Plan) -> Explanation:
    window, launch = plan.window, plan.launch
    facts: dict[str, Any] = {}
    if launch is not None:
        kernel = launch.kernel
        metadata = getattr(kernel, "metadata", None)
        facts = {
            "tile": launch.tile,
            "programs": launch.grid[0] * launch.grid[1],
            "scratch_bytes": 8 * launch.words,
            "registers": getattr(kernel, "n_regs", None),
            "spills": getattr(kernel, "n_spills", None),
            "shared_bytes": getattr(metadata, "shared", None),
            "launcher": launcher(plan),
        }
    return Explanation(
        estimator=plan.spec.name,
        path=plan.path,
        reason=reason(plan),
        rows=math.prod(window.rows),
        steps=window.steps,
        compute_dtype=str(window.compute_dtype).removeprefix("torch."),
        bytes_read=plan.bytes_read,
        bytes_written=plan.bytes_written,
        **facts,
    )


def launcher(plan: Plan) -> str:
    """What launches the next call that is like this one."""
    if plan.launch.compiled is None:
        return "Triton's ordinary launch"
    made = plan.shortcut is not None and plan.launch.flat() is not None
    return "one made for this kernel" if made else "the compiled kernel's own launcher"


def reason(plan: Plan) -> str:
    device = plan.window.device.type
    if plan.wish.path is not None:
        return "this path was forced"
    if plan.path == "triton":
        return f"a {device} tensor, and Triton {language.triton.__version__} is installed"
    if plan.path == "interpreter":
        return "TRITON_INTERPRET=1 was set when Triton was imported"
    if not language.HAS_TRITON:
        return "Triton is not installed"
    return f"a {device} tensor: PyTorch's own operations"
