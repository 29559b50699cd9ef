"""The compute capability of the GPU that a program is for, whether it is here or not."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator
from typing import Any

import jax

from jscan.advice import ENGINES, advise

KINDS = {
    70: r"V100S?|TITAN V",
    75: r"T4|TITAN RTX|Quadro RTX \d+|GeForce (RTX 20[678]0|GTX 16[356]0)",
    80: r"A100X?|A800|A30X?",
    86: r"A2|A10G?|A16|A40|RTX A\d+|GeForce RTX (2050|30\d0)",
    87: r"Orin",
    89: r"L2|L4|L20|L40S?|RTX \d+ (SFF )?Ada|GeForce RTX 40\d0",
    90: r"H20|H100|H200|H800|GH200",
    100: r"B200|GB200",
    103: r"B300|GB300",
    107: r"VR200",
    110: r"Thor",
    120: r"RTX PRO \d+|GeForce RTX 50\d0",
    121: r"GB10",
}
"""Words in the kinds of devices of each compute capability (https://developer.nvidia.com/cuda-gpus
and, for what is not there yet, jax's own table): for programs for a machine that is not there."""


def of_kind(kind: str) -> int:
    """That of a kind of device, of which none is here; "sm_90" is any of 9.0."""
    direct = re.fullmatch(r"sm_(\d+)a?", kind)
    if direct:
        return int(direct[1])
    for number, words in KINDS.items():
        if holds(words, kind):
            return number
    error = RuntimeError(
        f"jscan: no compute capability is known of a {kind!r}; the device_kind of a "
        "jax.sharding.AbstractDevice may also give it, as 'sm_90' does for 9.0"
    )
    raise advise(error, ENGINES)


def holds(words: str, kind: str) -> bool:
    """Whether a kind of device has one of these words."""
    return re.search(rf"(?<!\w)({words})(?!\w)", kind) is not None


def of_program(devices: Iterable[Any] = ()) -> int | None:
    """That of the GPU that a program is for, None where no GPU is known.

    It is the one that an abstract mesh names, else the first of the program's ``devices``, else the
    default device, else the first GPU. What is here says itself what it is.
    """
    here = [d for d in (*devices, *_default()) if _number(d) is not None]
    named = jax.sharding.get_abstract_mesh().abstract_device
    if named is not None and named.platform in ("gpu", "cuda"):
        here = [device for device in here if device.device_kind == named.device_kind]
        if not here:
            return of_kind(named.device_kind)
    return _number(here[0]) if here else None


def _number(device: Any) -> int | None:
    """What a device says of itself; None of what is none of CUDA's."""
    told = re.fullmatch(r"(\d+)\.(\d+)", getattr(device, "compute_capability", ""))
    return int(told[1] + told[2]) if told else None


def _default() -> Iterator[Any]:
    """The device that jax takes where none is named, if one is set, and all of CUDA's."""
    for one in (_chosen(), "cuda"):
        with contextlib.suppress(RuntimeError):  # there are none of a platform
            yield from jax.devices(one) if isinstance(one, str) else [one]


def _chosen() -> Any:
    """What the context or the user's settings name as the default: a device or a platform."""
    return jax.config.values["jax_default_device"]
