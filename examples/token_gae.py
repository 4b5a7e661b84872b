"""GAE over the tokens of a language model's responses, ragged lengths in one padded batch.

A response is an episode and a token a step. Its last token ends it: `terminated` where the model said that it is done,
`truncated` where the budget of tokens ran out, which has a value still. The padding behind it is flagged `terminated`
token by token. Nothing crosses an end, so padding may hold anything, NaN too, and changes no bit of a real token.

Run `python examples/token_gae.py`; the exit code is 1 if padding matters or a result leaves its bound.
"""

import argparse
import sys
from typing import Any, NamedTuple

import torch
from torch import Tensor

import rlscan

GAMMA, LAMBDA = 1.0, 0.95
UNIT_ROUNDOFF = 2.0**-24


class Responses(NamedTuple):
    """N responses of at most T tokens, as RLHF scores them."""

    rewards: Tensor  # [N, T]: minus the penalty for leaving the reference policy; the score is on the last token
    values: Tensor  # [N, T]: V before each token
    lengths: Tensor  # [N], int64, from 1 to T
    finished: Tensor  # [N], bool: ended by itself, not by its budget
    next_values: Tensor  # [N]: V behind the last token, for those that had not finished


def sample(num_responses: int, max_tokens: int, *, seed: int = 0, device: str = "cpu") -> Responses:
    """Random responses, from an eighth of the longest to the longest; three quarters finish."""
    generator = torch.Generator(device).manual_seed(seed)
    kwargs: dict[str, Any] = {"generator": generator, "device": device}
    shape = (num_responses, max_tokens)
    lengths = torch.randint(max(1, max_tokens // 8), max_tokens + 1, (num_responses,), **kwargs)
    lengths[0] = max_tokens
    rewards = torch.randn(*shape, **kwargs).abs_().mul_(-0.01)
    rewards.scatter_add_(1, lengths[:, None] - 1, torch.randn(num_responses, 1, **kwargs))
    finished = torch.rand(num_responses, **kwargs) < 0.75
    return Responses(rewards, torch.randn(*shape, **kwargs), lengths, finished, torch.randn(num_responses, **kwargs))


def inputs(responses: Responses) -> dict[str, Any]:
    """The arguments of rlscan.gae. No token is moved and no padding is cleared."""
    token = torch.arange(responses.rewards.shape[1], device=responses.rewards.device)
    last = responses.lengths[:, None] - 1
    return {
        "rewards": responses.rewards,
        "values": responses.values,
        "terminated": (token > last) | ((token == last) & responses.finished[:, None]),
        "truncated": (token == last) & ~responses.finished[:, None],
        "truncation_values": responses.next_values[:, None].expand_as(responses.values),  # a view: one value a response
        "last_values": responses.next_values,  # not read: the last column of every row is an end
        "gamma": GAMMA,
        "lambda_": LAMBDA,
    }


def padding(responses: Responses) -> Tensor:
    """[N, T], bool: the slots that hold no token."""
    return torch.arange(responses.rewards.shape[1], device=responses.lengths.device) >= responses.lengths[:, None]


def filled(responses: Responses, junk: float) -> Responses:
    """The same responses with other padding."""
    pad = padding(responses)
    rewards, values = responses.rewards.masked_fill(pad, junk), responses.values.masked_fill(pad, junk)
    return responses._replace(rewards=rewards, values=values)


def alone(responses: Responses, n: int) -> tuple[Tensor, Tensor]:
    """Response n without padding: its advantages by a loop in double precision, and the bound on float32's error.

    A term of the sum that lies k tokens ahead is rounded at most 4 + 5k times (δ; then γλ, a product and a sum a
    token), so with m of the farthest, m u / (1 − m u) times the sum of absolute terms bounds the error.
    """
    length = int(responses.lengths[n])
    rewards, values = responses.rewards[n, :length].tolist(), responses.values[n, :length].tolist()
    values.append(0.0 if responses.finished[n] else responses.next_values[n].item())
    advantage = majorant = 0.0
    found = []
    for t in reversed(range(length)):
        advantage = rewards[t] + GAMMA * values[t + 1] - values[t] + GAMMA * LAMBDA * advantage
        majorant = abs(rewards[t]) + GAMMA * abs(values[t + 1]) + abs(values[t]) + GAMMA * LAMBDA * majorant
        rounded = (5 + 5 * (length - t)) * UNIT_ROUNDOFF
        found.append((advantage, rounded / (1 - rounded) * majorant))
    advantages, bounds = torch.tensor(found[::-1], dtype=torch.float64).unbind(-1)
    return advantages, bounds


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--responses", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=2048, help="the longest response (default 2048)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args(argv)
    responses = sample(args.responses, args.tokens, seed=args.seed, device=args.device)
    tokens = ~padding(responses)
    advantages, _ = rlscan.gae(**inputs(responses))
    poisoned, _ = rlscan.gae(**inputs(filled(responses, torch.nan)))
    changed = int((advantages != poisoned)[tokens].sum())
    share = 0.0
    for n, length in enumerate(responses.lengths.tolist()):
        expected, bound = alone(responses, n)
        share = max(share, ((advantages[n, :length].cpu().double() - expected).abs() / bound).max().item())
    print(f"{args.responses} responses, {int(tokens.sum())} tokens, {float((~tokens).double().mean()):.0%} padding")
    print(f"tokens whose advantage changes when padding is NaN: {changed}")
    print(f"largest error beside each response alone, of its a-priori bound: {share:.1%}")
    right = changed == 0 and share <= 1
    if not right:
        print("FAILED", file=sys.stderr)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
