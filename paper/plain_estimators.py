"""The seven estimators as people write them in their own projects: NumPy loops over [N, T], masks that multiply.

What `rlscan.testing` is shown to accept, and, with one fault in each (`paper.faulty_versions`), to reject.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def gae(rewards, values, terminated, truncated, last_values, truncation_values, gamma, lambda_) -> Any:
    advantages, advantage = np.zeros_like(rewards), 0.0
    next_values = last_values
    for t in reversed(range(rewards.shape[1])):
        term, trunc = terminated[:, t], truncated[:, t]
        successor = np.where(trunc, truncation_values[:, t], next_values) * (1.0 - term)
        delta = rewards[:, t] + gamma * successor - values[:, t]
        going_on = 1.0 - (term | trunc)
        advantage = delta + gamma * lambda_ * going_on * advantage
        advantages[:, t] = advantage
        next_values = values[:, t]
    return advantages, advantages + values


def vtrace(rewards, values, log_ratios, terminated, truncated, last_values, truncation_values, gamma, lambda_) -> Any:
    ratio = np.exp(log_ratios)
    rho, c, pg_rho = np.minimum(1.0, ratio), lambda_ * np.minimum(1.0, ratio), np.minimum(1.0, ratio)
    targets, advantages = np.zeros_like(values), np.zeros_like(values)
    correction, next_values, next_target = 0.0, last_values, last_values
    for t in reversed(range(rewards.shape[1])):
        term, trunc = terminated[:, t], truncated[:, t]
        successor = np.where(trunc, truncation_values[:, t], next_values) * (1.0 - term)
        going_on = 1.0 - (term | trunc)
        delta = rho[:, t] * (rewards[:, t] + gamma * successor - values[:, t])
        correction = delta + gamma * c[:, t] * going_on * correction
        targets[:, t] = values[:, t] + correction
        towards = np.where(term | trunc, successor, next_target)
        advantages[:, t] = pg_rho[:, t] * (rewards[:, t] + gamma * towards - values[:, t])
        next_values, next_target = values[:, t], targets[:, t]
    return targets, advantages


def retrace(rewards, q_values, log_ratios, terminated, truncated, next_q_values, next_policy, gamma, lambda_) -> Any:
    expected = (next_policy * next_q_values).sum(-1)
    c = lambda_ * np.minimum(1.0, np.exp(log_ratios))
    targets = np.zeros_like(q_values)
    correction, next_c = 0.0, 0.0
    for t in reversed(range(rewards.shape[1])):
        term, trunc = terminated[:, t], truncated[:, t]
        delta = rewards[:, t] + gamma * (1.0 - term) * expected[:, t] - q_values[:, t]
        correction = delta + gamma * next_c * (1.0 - (term | trunc)) * correction
        targets[:, t] = q_values[:, t] + correction
        next_c = c[:, t]
    return targets


def td_lambda(rewards, values, terminated, truncated, last_values, truncation_values, gamma, lambda_) -> Any:
    returns = np.zeros_like(rewards)
    next_values, next_return = last_values, last_values
    for t in reversed(range(rewards.shape[1])):
        term, trunc = terminated[:, t], truncated[:, t]
        successor = np.where(trunc, truncation_values[:, t], next_values) * (1.0 - term)
        inside = (1.0 - lambda_) * successor + lambda_ * next_return
        next_return = rewards[:, t] + gamma * np.where(term | trunc, successor, inside)
        returns[:, t] = next_return
        next_values = values[:, t]
    return returns


def discounted_returns(rewards, terminated, truncated, last_values, truncation_values, gamma) -> Any:
    returns, next_return = np.zeros_like(rewards), last_values
    for t in reversed(range(rewards.shape[1])):
        term, trunc = terminated[:, t], truncated[:, t]
        next_return = np.where(trunc, truncation_values[:, t], next_return) * (1.0 - term)
        next_return = rewards[:, t] + gamma * next_return
        returns[:, t] = next_return
    return returns


def eligibility_traces(inputs, ends, initial, gamma, lambda_) -> Any:
    traces, trace = np.zeros_like(inputs), initial
    for t in range(inputs.shape[1]):
        trace = gamma * lambda_ * trace + inputs[:, t]
        traces[:, t] = trace
        trace = trace * (1.0 - ends[:, t])
    return traces


def prefix_sum(inputs, ends, initial) -> Any:
    sums, total = np.zeros_like(inputs), initial
    for t in range(inputs.shape[1]):
        total = total + inputs[:, t]
        sums[:, t] = total
        total = total * (1.0 - ends[:, t])
    return sums
