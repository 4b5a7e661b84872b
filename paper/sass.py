"""Machine code as NVIDIA's disassembler prints it: which instructions work on one tile, by class.

Each instruction counts once: those of a branch that few programs take count too, and those that wait count once.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import triton

TOOLS = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
LINE = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_.]*)(.*?);")
LABEL = re.compile(r"^(\.L_x_\d+):")
TARGET = re.compile(r"\((\.L_x_\d+)\)")
# the first whose prefixes fit; the rest is "other": integers, addresses, moves, branches
CLASSES = {
    "loads": ("LDG", "LD."),
    "stores": ("STG", "ST."),
    "shared": ("LDS", "STS", "LDSM", "STSM"),
    "local": ("LDL", "STL"),  # spills
    "shuffles": ("SHFL",),
    "barriers": ("BAR", "WARPSYNC", "BSYNC", "BSSY", "MEMBAR", "DEPBAR"),
    "compares": ("FSEL", "FSETP", "FSET", "FMNMX", "SEL", "ISETP", "PLOP3", "DSETP", "USEL", "UISETP", "UPLOP3"),
    "floating": ("FADD", "FMUL", "FFMA", "MUFU", "FSWZADD", "FCHK", "HADD2", "HMUL2", "HFMA2", "F2F", "I2F"),
}  # fmt: skip
NOTHING = ("NOP",)


class Instruction(NamedTuple):
    opcode: str
    target: int | None  # where a branch goes to


class Body(NamedTuple):
    """What works on one tile: the loop over tiles, or the whole kernel where there is none."""

    is_loop: bool
    instructions: dict[str, int]
    outside: int  # of the loop: what each program does once


def parse(text: str) -> list[Instruction]:
    found: list[tuple[str, str | None]] = []
    labels: dict[str, int] = {}
    for line in text.splitlines():
        if label := LABEL.match(line):
            labels[label[1]] = len(found)
        elif match := LINE.match(line):
            target = TARGET.search(match[2]) if match[1].startswith("BRA") else None
            found.append((match[1], target[1] if target else None))
    return [Instruction(opcode, labels[target] if target else None) for opcode, target in found]


def class_of(opcode: str) -> str:
    return next((name for name, prefixes in CLASSES.items() if opcode.startswith(prefixes)), "other")


def counts(instructions: list[Instruction]) -> dict[str, int]:
    found = Counter(class_of(one.opcode) for one in instructions if not one.opcode.startswith(NOTHING))
    return {name: found[name] for name in (*CLASSES, "other")}


def body(instructions: list[Instruction]) -> Body:
    """The widest loop that holds every store to global memory; else all up to where the kernel ends."""
    stores = [k for k, one in enumerate(instructions) if class_of(one.opcode) == "stores"]
    ends = [k for k, one in enumerate(instructions) if one.opcode.startswith("EXIT")]
    if not stores or not ends:
        raise ValueError("no kernel that stores and ends")
    loops = [
        (one.target, k)
        for k, one in enumerate(instructions)
        if one.target is not None and one.target <= stores[0] and stores[-1] <= k
    ]
    first, last = max(loops, key=lambda loop: loop[1] - loop[0]) if loops else (0, ends[-1])
    once = counts(instructions[:first] + instructions[last + 1 : ends[-1] + 1])
    return Body(bool(loops), counts(instructions[first : last + 1]), sum(once.values()))


def tool(name: str, *arguments: str) -> str:
    return subprocess.run([TOOLS / name, *arguments], capture_output=True, text=True, check=True).stdout


def assembler() -> str:
    return tool("ptxas", "--version").strip().splitlines()[-1]


def resources(usage: str) -> dict[str, int]:
    """Of `cuobjdump -res-usage`: registers a thread, bytes a thread in local memory."""
    found = {name: int(value) for name, value in re.findall(r"\b(REG|STACK|LOCAL):(\d+)", usage)}
    return {"registers": found["REG"], "spilled_bytes": found["STACK"] + found["LOCAL"]}


def read(cubin: bytes) -> tuple[dict[str, int], list[Instruction]]:
    """Resources and instructions of a compiled kernel."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        return resources(tool("cuobjdump", "-res-usage", file.name)), parse(tool("nvdisasm", "-c", file.name))
