"""The names that the notebooks and a reader's own programs use. Everything else is imported from its module."""

import sys

try:
    from helpers.benchmark import benchmark
    from helpers.kernel import Kernel, emulate, load, random_matrix
    from helpers.machine import Machine, machine
    from helpers.matmul import matmul
    from helpers.models.predict import predict
    from helpers.verify import Verification, verify, verify_all
except KeyboardInterrupt:   # importing takes a moment; `python -m helpers...` then stops as quietly as later
    if sys.argv[:1] != ["-m"]:
        raise
    print("Interrupted.", file=sys.stderr)
    sys.exit(130)
except ModuleNotFoundError as error:   # another Python than that of the environment
    if sys.argv[:1] != ["-m"] or (error.name or "").startswith("helpers"):
        raise
    print(f"This Python has no {error.name}: run `make setup`, then use .venv/bin/python.", file=sys.stderr)
    sys.exit(1)

__all__ = [
    "Kernel",
    "Machine",
    "Verification",
    "benchmark",
    "emulate",
    "load",
    "machine",
    "matmul",
    "predict",
    "random_matrix",
    "verify",
    "verify_all",
]
