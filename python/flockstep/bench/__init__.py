"""The targets of docs/benchmarks.md that are PyTorch's: `python -m flockstep.bench adacons|ddp|fsdp|averager|lab`."""
