"""Clocks: a full call between CUDA events, the parts of a long one, the host's part, device time by a CUDA graph."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import torch

Call = Callable[[], Any]
ROTATED_BYTES = 250e6  # inputs rotate until so many bytes went by, or all sets: several times the cache of an H200


def timer(device: str) -> Callable[[Call], float]:
    """Microseconds of one full call."""
    if device == "cpu":

        def on_host(call: Call) -> float:
            start = time.perf_counter()
            call()
            return (time.perf_counter() - start) * 1e6

        return on_host

    start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)

    def between_events(call: Call) -> float:
        torch.cuda.synchronize()
        start.record()
        call()
        stop.record()
        torch.cuda.synchronize()
        return float(start.elapsed_time(stop)) * 1e3

    return between_events


def laps(device: str) -> Callable[[Callable[[Call], Any]], list[float]]:
    """Microseconds between the marks that a call sets, its begin and its end among them.

    On a GPU marks are events in the stream: the device is waited for before and after the call, not within.
    """

    def measure(call: Callable[[Call], Any]) -> list[float]:
        marks: list[Any] = []

        def mark() -> None:
            if device == "cpu":
                marks.append(time.perf_counter())
                return
            marks.append(torch.cuda.Event(enable_timing=True))
            marks[-1].record()

        if device != "cpu":
            torch.cuda.synchronize()
        mark()
        call(mark)
        mark()
        if device == "cpu":
            return [(stop - start) * 1e6 for start, stop in pairwise(marks)]
        torch.cuda.synchronize()
        return [float(start.elapsed_time(stop)) * 1e3 for start, stop in pairwise(marks)]

    return measure


def rotation(bytes_a_call: float, most: int = 8) -> int:
    """How many copies of the inputs a device time needs, so that large ones do not sit in cache."""
    return max(1, min(most, round(ROTATED_BYTES / bytes_a_call + 0.5)))


def device_samples(calls: Sequence[Call], trials: int = 7, least_us: float = 1500.0) -> list[float]:
    """Microseconds of device time a call, one number a trial: a CUDA graph of all calls in turn, replayed.

    The graph holds enough calls to run for `least_us`, so that the launch of the graph itself does not count. The
    result of a call is kept until its next turn, so that results rotate through memory as inputs do.
    """
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for call in calls:
            call()
    torch.cuda.synchronize()
    start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    repeats = 1
    while True:
        graph = torch.cuda.CUDAGraph()
        kept: list[Any] = [None] * len(calls)
        with torch.cuda.graph(graph):
            for _ in range(repeats):
                for turn, call in enumerate(calls):
                    kept[turn] = call()
        samples = []
        graph.replay()
        for _ in range(trials):
            torch.cuda.synchronize()
            start.record()
            graph.replay()
            stop.record()
            torch.cuda.synchronize()
            samples.append(float(start.elapsed_time(stop)) * 1e3)
        if min(samples) >= least_us or repeats * len(calls) >= 400:
            return [round(sample / (repeats * len(calls)), 4) for sample in samples]
        repeats = min(-(-400 // len(calls)), int(repeats * max(2.0, 1.2 * least_us / min(samples))))


def stream_samples(bytes_moved: float, sets: int) -> list[float]:
    """The same for an add kernel that reads and writes as many bytes, over as many sets: the limit to compare with."""
    count = max(1, int(bytes_moved) // 12)
    triples = [torch.randn(3, count, device="cuda").unbind(0) for _ in range(sets)]
    return device_samples([partial(torch.add, a, b, out=c) for a, b, c in triples])


def host_samples(call: Call, trials: int = 11, calls: int = 200) -> list[float]:
    """Microseconds of host time a call, one number a trial; between trials the device is waited for."""
    samples = []
    for _ in range(trials):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(calls):
            call()
        samples.append(round((time.perf_counter() - start) / calls * 1e6, 3))
    torch.cuda.synchronize()
    return samples


def host_pace(trials: int = 5) -> float:
    """Microseconds of a fixed piece of work of the host alone: longer where it is slowed down, whatever is measured."""
    samples = []
    for _ in range(trials):
        start = time.perf_counter()
        sum(n * n for n in range(5000))
        samples.append((time.perf_counter() - start) * 1e6)
    return statistics.median(samples)
