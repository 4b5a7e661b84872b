"""Backpropagation through time of spiking neurons with a hard reset: a recurrence of one's own for rlscan.linear_scan.

A leaky integrate-and-fire neuron with input current I, decay d and threshold θ:

    u_t = I_t + d·(1 − s_{t−1})·u_{t−1},   u_{−1} = 0          a spike resets the potential to 0
    s_t = 1 where u_t ≥ θ, else 0

As a scan, forward: α_t = I_t, β_t = d·(1 − s_{t−1}), once the spikes are known. They depend on u, so they are found
step by step, and of the steps nothing else is kept. Or in sweeps: guess, scan, read off, until they repeat. What
repeats is the solution, and a sweep settles at least the first step that is not settled yet; that pays where neurons
are few and spikes are rare.

As a scan, backward: with g_t = ∂L/∂s_t·σ'(u_t) + (∂L/∂u_t as u_t itself is used),

    x_t = g_t + d·(1 − s_t − u_t·σ'(u_t))·x_{t+1},   x_T = 0,   ∂L/∂I_t = x_t

where σ'(u) = max(0, 1 − |u − θ|) stands in for the derivative of the step (Esser et al. 2016, arXiv:1603.08270). The
term with u_t·σ'(u_t) is the gradient through the reset.

Run `python examples/spiking.py`; the exit code is 1 if a gradient is not that of autograd through the loop.
"""

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

import rlscan

DECAY, THRESHOLD = 0.9, 1.0
Scan = Callable[..., Tensor]  # (alpha, beta) and, for the backward one, reverse=True


def surrogate(potential: Tensor) -> Tensor:
    """σ'(u)."""
    return (1 - (potential - THRESHOLD).abs()).clamp(min=0)


def forward_coefficients(current: Tensor, spikes: Tensor) -> tuple[Tensor, Tensor]:
    """α and β of the potential, [N, T]."""
    beta = torch.full_like(current, DECAY)
    beta[:, 1:] -= DECAY * spikes[:, :-1]
    return current, beta


def backward_coefficients(
    potential: Tensor, spikes: Tensor, grad_spikes: Tensor, grad_potential: Tensor
) -> tuple[Tensor, Tensor]:
    """α and β of ∂L/∂I, [N, T]."""
    slope = surrogate(potential)
    return grad_spikes * slope + grad_potential, DECAY * (1 - spikes - potential * slope)


@torch.no_grad()
def spikes_by_step(current: Tensor) -> Tensor:
    """Spikes, [N, T]."""
    spikes = torch.empty_like(current)
    potential = spike = torch.zeros_like(current[:, 0])
    for t in range(current.shape[1]):
        potential = current[:, t] + DECAY * (1 - spike) * potential
        spike = spikes[:, t] = (potential >= THRESHOLD).to(current.dtype)
    return spikes


@torch.no_grad()
def spikes_by_sweep(current: Tensor, scan: Scan = rlscan.linear_scan) -> tuple[Tensor, int]:
    """Spikes, [N, T], and how many sweeps they took."""
    spikes = torch.zeros_like(current)
    for sweep in range(1, current.shape[1] + 2):
        found = (scan(*forward_coefficients(current, spikes)) >= THRESHOLD).to(current.dtype)
        if torch.equal(found, spikes):  # the host waits here
            return spikes, sweep
        spikes = found
    raise AssertionError("T + 1 sweeps settle T steps")


class LeakyIntegrateAndFire(torch.autograd.Function):
    """Spikes and potential [N, T] of currents [N, T]."""

    @staticmethod
    def forward(ctx: Any, current: Tensor, scan: Scan, sweep: bool) -> tuple[Tensor, Tensor]:
        current = current.detach()
        spikes = spikes_by_sweep(current, scan)[0] if sweep else spikes_by_step(current)
        potential = scan(*forward_coefficients(current, spikes))
        ctx.scan = scan
        ctx.save_for_backward(potential, spikes)
        return spikes, potential

    @staticmethod
    def backward(ctx: Any, grad_spikes: Tensor, grad_potential: Tensor) -> tuple[Tensor, None, None]:
        alpha, beta = backward_coefficients(*ctx.saved_tensors, grad_spikes, grad_potential)
        return ctx.scan(alpha, beta, reverse=True), None, None


def neurons(current: Tensor, scan: Scan = rlscan.linear_scan, sweep: bool = False) -> tuple[Tensor, Tensor]:
    """Spikes and potential, differentiable in the current."""
    spikes, potential = LeakyIntegrateAndFire.apply(current, scan, sweep)
    return spikes, potential


# The same by a loop, differentiated by autograd


class Spike(torch.autograd.Function):
    """The step, with the derivative that stands in for its own."""

    @staticmethod
    def forward(ctx: Any, potential: Tensor) -> Tensor:
        ctx.save_for_backward(potential)
        return (potential >= THRESHOLD).to(potential.dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad * surrogate(*ctx.saved_tensors)


def neurons_by_loop(current: Tensor) -> tuple[Tensor, Tensor]:
    """Spikes and potential, step by step."""
    potential = spike = torch.zeros_like(current[:, 0])
    spikes, potentials = [], []
    for current_t in current.unbind(1):
        potential = current_t + DECAY * (1 - spike) * potential
        spike = Spike.apply(potential)
        spikes.append(spike)
        potentials.append(potential)
    return torch.stack(spikes, dim=1), torch.stack(potentials, dim=1)


def gradient(model: Callable[[Tensor], tuple[Tensor, Tensor]], current: Tensor, weights: Tensor) -> Tensor:
    """∂L/∂I for L = Σ w·s + Σ u²/2, which uses both results."""
    current = current.detach().requires_grad_()
    spikes, potential = model(current)
    ((weights * spikes).sum() + 0.5 * potential.square().sum()).backward()
    assert current.grad is not None
    return current.grad


def sample(num_neurons: int, steps: int, *, seed: int = 0, device: str = "cpu", dtype: Any = torch.float32) -> Any:
    """Currents that make a neuron fire about every tenth step, and weights for a loss, [N, T]."""
    generator = torch.Generator(device).manual_seed(seed)
    current, weights = torch.randn(2, num_neurons, steps, generator=generator, device=device).to(dtype)
    return 0.15 + 0.2 * current, weights


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--neurons", type=int, default=512)
    parser.add_argument("--steps", type=int, default=256)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args(argv)
    current, weights = sample(args.neurons, args.steps, seed=args.seed, device=args.device, dtype=torch.float64)
    spikes = spikes_by_step(current)
    swept, sweeps = spikes_by_sweep(current)
    found, seconds = [], []
    for model in (neurons, neurons_by_loop):
        start = time.perf_counter()
        found.append(gradient(model, current, weights))
        largest = found[-1].abs().max().item()  # waits for the device
        seconds.append(time.perf_counter() - start)
    same = torch.equal(spikes, neurons_by_loop(current)[0]) and torch.equal(spikes, swept)
    difference = (found[0] - found[1]).abs().max().item() / largest
    print(
        f"{args.neurons} neurons, {args.steps} steps, {spikes.mean():.1%} of them spikes; {sweeps} sweeps settle them"
    )
    print(f"the same spikes in sweeps and by the loop: {same}")
    print(f"largest difference of a gradient: {difference:.1e} of the largest gradient")
    print(f"forward and backward: {1e3 * seconds[0]:.0f} ms; by the loop and autograd: {1e3 * seconds[1]:.0f} ms")
    right = same and difference < torch.finfo(torch.float32).eps  # in double precision: what float32 could tell apart
    if not right:
        print("FAILED", file=sys.stderr)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
