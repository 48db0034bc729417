"""The names that the notebooks use. Everything else is imported from its module."""

from helpers.benchmark import benchmark
from helpers.kernel import Kernel, emulate, load, random_matrix
from helpers.verify import verify, verify_all

__all__ = ["Kernel", "benchmark", "emulate", "load", "random_matrix", "verify", "verify_all"]
