"""One thread a row, in CUDA C: the baseline of Figures 2 and 3, compiled at run time.

Each thread walks its row backward with the carry in a register, as hand-written kernels do. There are two ways to call
it: `plain` through PyTorch's own launcher for kernels compiled at run time; `prepared` with the argument block built
beforehand and one driver call, the least that Python can do.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import torch
from torch import Tensor

SOURCE = r"""
extern "C" __global__ void gae_rows(
    const float* rewards, const float* values, const unsigned char* terminated, const float* last_values,
    float* advantages, float* returns, int rows, int steps, NUMBER gamma_, NUMBER gamma_lambda_)
{
    float gamma = gamma_, gamma_lambda = gamma_lambda_;
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    long long at = (long long)row * steps + steps - 1;
    float value_next = last_values[row], advantage = 0.0f;
    for (int t = steps - 1; t >= 0; --t, --at) {
        float value = values[at], continues = terminated[at] ? 0.0f : 1.0f;
        advantage = rewards[at] + gamma * continues * value_next - value + gamma_lambda * continues * advantage;
        advantages[at] = advantage;
        returns[at] = advantage + value;
        value_next = value;
    }
}
"""
THREADS = 64  # a block; small blocks spread few rows over more multiprocessors
Outputs = tuple[Tensor, Tensor]


def plain() -> Callable[..., Outputs]:
    # PyTorch's launcher hands Python floats over as doubles
    kernel = torch.cuda._compile_kernel(SOURCE.replace("NUMBER", "double"), "gae_rows")

    def gae(
        rewards: Tensor, values: Tensor, terminated: Tensor, *, last_values: Tensor, gamma: float, lambda_: float
    ) -> Outputs:
        advantages, returns = torch.empty_like(rewards), torch.empty_like(rewards)
        rows, steps = rewards.shape
        arguments = [rewards, values, terminated, last_values, advantages, returns, rows, steps, gamma, gamma * lambda_]
        kernel(grid=(-(-rows // THREADS), 1, 1), block=(THREADS, 1, 1), args=arguments)
        return advantages, returns

    return gae


def prepared() -> Callable[..., Outputs]:
    function = torch.cuda._compile_kernel(SOURCE.replace("NUMBER", "float"), "gae_rows").func
    driver = ctypes.CDLL("libcuda.so.1")
    pointers = [ctypes.c_void_p() for _ in range(6)]
    numbers = (ctypes.c_int(), ctypes.c_int(), ctypes.c_float(), ctypes.c_float())
    block = (ctypes.c_void_p * 10)(*(ctypes.addressof(x) for x in (*pointers, *numbers)))
    current_stream: Callable[[int], int] = torch._C._cuda_getCurrentRawStream  # type: ignore[attr-defined]  # C, no stub

    def gae(
        rewards: Tensor, values: Tensor, terminated: Tensor, *, last_values: Tensor, gamma: float, lambda_: float
    ) -> Outputs:
        advantages, returns = torch.empty_like(rewards), torch.empty_like(rewards)
        for pointer, x in zip(pointers, (rewards, values, terminated, last_values, advantages, returns), strict=True):
            pointer.value = x.data_ptr()
        numbers[0].value, numbers[1].value = rows, _ = rewards.shape
        numbers[2].value, numbers[3].value = gamma, gamma * lambda_
        stream = ctypes.c_void_p(current_stream(0))
        status = driver.cuLaunchKernel(function, -(-rows // THREADS), 1, 1, THREADS, 1, 1, 0, stream, block, None)
        if status:
            raise RuntimeError(f"cuLaunchKernel returned {status}")
        return advantages, returns

    return gae


CUDA_ROWS: dict[str, Callable[[], Callable[..., Outputs]]] = {"cuda_rows": plain, "cuda_rows_prepared": prepared}
