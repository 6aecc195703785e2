"""What sawlog costs, measured beside what the bare database costs: see `docs/performance.md`.

`python -m benchmarks` runs the rows, `python -m benchmarks.peers` other libraries,
`python -m benchmarks.instructions` counts instructions, `python -m benchmarks.plots` draws.
"""
