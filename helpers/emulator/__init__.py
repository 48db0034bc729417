"""Runs CUDA kernels on the CPU: functional and counting, never a source of times. See docs/emulator.md."""

from helpers.emulator.compiler import compiler_version
from helpers.emulator.module import EmulatedModule, compile_kernel
from helpers.emulator.results import Counter, EmulatorRun, Report

EmulatedKernel = EmulatedModule

__all__ = ["Counter", "EmulatedKernel", "EmulatedModule", "EmulatorRun", "Report", "compile_kernel", "compiler_version"]
