"""What `python -m flockstep.bench adacons --device cuda` does, on the CPU and small: see test_bench.py."""

import sys

from flockstep.bench import exchange

if __name__ == "__main__":
    options = {
        "contenders": list(exchange.CONTENDERS),
        "settings": list(exchange.SETTINGS),
        "repeats": 1,
        "bucket_mb": 1,
    }
    sys.exit(exchange.run(400_003, 2, "--json" in sys.argv, device="cpu", **options))
