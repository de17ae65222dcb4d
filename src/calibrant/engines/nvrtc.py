"""CUDA C++ compiled at run time by NVRTC, the compiler that PyTorch brings along.

Compiler and driver are C libraries whose interfaces have not changed in years, called by ctypes.
PyTorch's function for this is private, came late, and takes ten times as long to start a kernel.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from pathlib import Path
from typing import Any

from calibrant._lazy import torch
from calibrant.exceptions import MissingDependencyError

DYNAMIC_SHARED = 8
"""Of `CUfunction_attribute`: how much memory the threads of a block may ask for together."""
SHARED_OPTIN, MULTIPROCESSORS = 97, 16
"""Of `CUdevice_attribute`: the most that they can ask for, and how many blocks run side by side."""
RESERVED = 2048
"""Of shared memory, for what a kernel declares itself."""


@cache
def limits(device: int) -> tuple[int, int]:
    """Return the number of multiprocessors, and the shared memory that a block can ask for."""
    values = []
    for attribute in (MULTIPROCESSORS, SHARED_OPTIN):
        value = ctypes.c_int()
        _check(_driver().cuDeviceGetAttribute(ctypes.byref(value), attribute, _handle(device)))
        values.append(value.value)
    return values[0], values[1] - RESERVED


def compiled(device: int, source: str, name: str) -> ctypes.c_void_p:
    """Return the kernel of this name for a device; raise RuntimeError if it cannot be compiled."""
    binary = _binary(source, torch.cuda.get_device_capability(device))
    module, kernel, driver = ctypes.c_void_p(), ctypes.c_void_p(), _driver()
    with _current(device):
        _check(driver.cuModuleLoadData(ctypes.byref(module), binary))
        _check(driver.cuModuleGetFunction(ctypes.byref(kernel), module, name.encode()))
        _check(driver.cuFuncSetAttribute(kernel, DYNAMIC_SHARED, limits(device)[1]))
    return kernel


def start(
    device: int,
    kernel: ctypes.c_void_p,
    grid: tuple[int, int],
    block: tuple[int, int],
    packed: bytes,
    shared: int,
) -> None:
    """Start a kernel on the current stream, in a few microseconds; `packed` are its arguments."""
    size = ctypes.c_size_t(len(packed))
    # A list of a pointer to all arguments (1) and their size (2), ended by 0.
    first = ctypes.cast(ctypes.c_char_p(packed), ctypes.c_void_p)
    extra = (ctypes.c_void_p * 5)(1, first, 2, ctypes.addressof(size), 0)
    stream = ctypes.c_void_p(torch.cuda.current_stream(device).cuda_stream)
    with _current(device):
        _check(_driver().cuLaunchKernel(kernel, *grid, 1, *block, 1, shared, stream, None, extra))


def _binary(source: str, capability: tuple[int, int]) -> bytes:
    """Compile for processors of this capability."""
    nvrtc, program = _compiler(), ctypes.c_void_p()
    made = nvrtc.nvrtcCreateProgram(
        ctypes.byref(program), source.encode(), b"calibrant.cu", 0, None, None
    )
    if made:
        raise RuntimeError(f"NVRTC error {made}.")
    try:
        options = [f"--gpu-architecture=sm_{capability[0]}{capability[1]}", "--std=c++17"]
        encoded = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
        failed = nvrtc.nvrtcCompileProgram(program, len(options), encoded)
        if failed:
            log = _read(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program)
            raise RuntimeError(f"NVRTC error {failed}: {log.decode(errors='replace')[:200]}")
        return _read(nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN, program)
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


def _read(size_of: Any, read: Any, program: ctypes.c_void_p) -> bytes:
    size = ctypes.c_size_t()
    size_of(program, ctypes.byref(size))
    buffer = ctypes.create_string_buffer(max(1, size.value))
    read(program, buffer)
    return buffer.raw


@cache
def _compiler() -> Any:
    """Load NVRTC: PyTorch's own, if it is not on the system's path."""
    major = (torch.version.cuda or "").split(".")[0]
    name = f"nvrtc64_{major}0_0.dll" if sys.platform == "win32" else f"libnvrtc.so.{major}"
    packages = Path(torch.__file__).parents[1]
    for library in (name, *map(str, packages.glob(f"nvidia/*/lib/{name}"))):
        try:
            return ctypes.CDLL(library)
        except OSError:
            continue
    raise MissingDependencyError(f"PyTorch's compiler of CUDA kernels, {name}, was not found.")


@cache
def _driver() -> Any:
    return ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")


@cache
def _handle(device: int) -> ctypes.c_int:
    """Return the driver's handle of a device, which it numbers as PyTorch does."""
    torch.cuda.init()
    handle = ctypes.c_int()
    _check(_driver().cuDeviceGet(ctypes.byref(handle), device))
    return handle


@cache
def _context(device: int) -> ctypes.c_void_p:
    context = ctypes.c_void_p()
    _check(_driver().cuDevicePrimaryCtxRetain(ctypes.byref(context), _handle(device)))
    return context


class _current:  # noqa: N801
    """Makes the context of a device that of this thread, which may be new and have none."""

    __slots__ = ("context",)

    def __init__(self, device: int) -> None:
        self.context = _context(device)

    def __enter__(self) -> None:
        _check(_driver().cuCtxPushCurrent_v2(self.context))

    def __exit__(self, *_: object) -> None:
        _driver().cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))


def _check(status: int) -> None:
    if status:
        text = ctypes.c_char_p()
        _driver().cuGetErrorString(status, ctypes.byref(text))
        raise RuntimeError(f"CUDA driver error {status}: {(text.value or b'unknown').decode()}.")
