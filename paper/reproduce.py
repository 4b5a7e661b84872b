"""What `rlscan reproduce` does once the verification has passed: measure what this machine can,
render all that there is.
"""

from paper import bench, render


def main(*, device: str, table: str | None, seed: int) -> int:
    """Measures the tables for this device, then renders every committed result; the exit code of the worst."""
    wanted = [table] if table else (["table3"] if device.startswith("cuda") else ["table3_cpu"])
    known = bench.tables()
    code = 0
    for name in wanted:
        if name not in known:
            print(f"no table {name!r} in paper/tables.toml; there are {', '.join(known)}")
            return 2
        code = max(code, bench.main(["--table", name, "--device", device, "--seed", str(seed)]))
    return max(code, render.main([]))
