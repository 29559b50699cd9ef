"""The compute capability that a program is compiled for: by names of GPUs, and by what is here."""

from __future__ import annotations

from types import SimpleNamespace

import jax
import pytest

from jscan import capabilities
from tests.kernels.test_lowering import gpu_of

DEVICES = {
    "Tesla V100-SXM2-16GB": 70,
    "Tesla V100S-PCIE-32GB": 70,
    "Tesla T4": 75,
    "NVIDIA GeForce RTX 2080 Ti": 75,
    "NVIDIA GeForce GTX 1660 SUPER": 75,
    "Quadro RTX 6000": 75,
    "NVIDIA A100-SXM4-40GB": 80,
    "NVIDIA A100 80GB PCIe": 80,
    "NVIDIA A30": 80,
    "NVIDIA A10": 86,
    "NVIDIA A10G": 86,
    "NVIDIA A40": 86,
    "NVIDIA RTX A6000": 86,
    "NVIDIA GeForce RTX 3090": 86,
    "NVIDIA GeForce RTX 3060 Laptop GPU": 86,
    "Orin": 87,
    "NVIDIA L4": 89,
    "NVIDIA L40S": 89,
    "NVIDIA RTX 6000 Ada Generation": 89,
    "NVIDIA RTX 4000 SFF Ada Generation": 89,
    "NVIDIA GeForce RTX 4090 D": 89,
    "NVIDIA H100 80GB HBM3": 90,
    "NVIDIA H100 NVL": 90,
    "NVIDIA H200": 90,
    "NVIDIA GH200 480GB": 90,
    "NVIDIA H20": 90,
    "NVIDIA B200": 100,
    "NVIDIA GB200": 100,
    "NVIDIA B300 SXM6 AC": 103,
    "NVIDIA GB300": 103,
    "NVIDIA Thor": 110,
    "NVIDIA GeForce RTX 5090": 120,
    "NVIDIA GeForce RTX 5070 Ti": 120,
    "NVIDIA RTX PRO 6000 Blackwell Server Edition": 120,
    "NVIDIA GB10": 121,
    "sm_90": 90,
    "sm_121": 121,
}
"""Kinds of devices as jax gives them."""


@pytest.mark.parametrize("kind", DEVICES)
def test_kinds_of_devices(kind):
    assert capabilities.of_kind(kind) == DEVICES[kind]
    words = capabilities.KINDS.items()
    assert [n for n, pattern in words if capabilities.holds(pattern, kind)] in (
        [DEVICES[kind]],
        [],  # where the kind is the number itself
    )


@pytest.mark.parametrize("kind", ["NVIDIA Abacus", "NVIDIA A1000000", "NVIDIA GeForce GTX 980", ""])
def test_a_kind_that_is_not_known_says_how_to_give_the_number(kind):
    with pytest.raises(
        RuntimeError, match=r"is known of a '.*'; the device_kind .* 'sm_90' .* 9\.0"
    ):
        capabilities.of_kind(kind)


# --- what is here -------------------------------------------------------------------------------


def gpu(kind, capability):
    """A GPU that says what it is."""
    return SimpleNamespace(device_kind=kind, compute_capability=capability, platform="gpu")


@pytest.fixture
def machine(monkeypatch):
    """A machine with two GPUs."""
    known = [gpu("NVIDIA L4", "8.9"), gpu("NVIDIA A100", "8.0")]
    monkeypatch.setattr(jax, "devices", lambda platform: known)  # noqa: ARG005
    return known


def test_the_devices_of_a_program_come_first(machine):
    assert capabilities.of_program([gpu("NVIDIA H100", "9.0")]) == 90
    assert capabilities.of_program([machine[1]]) == 80
    assert capabilities.of_program() == 89


def test_the_default_device_comes_before_others(machine, monkeypatch):
    monkeypatch.setattr(capabilities, "_chosen", lambda: machine[1])
    assert capabilities.of_program() == 80
    monkeypatch.setattr(capabilities, "_chosen", lambda: "gpu")
    assert capabilities.of_program() == 89


@pytest.mark.usefixtures("machine")
def test_the_default_device_is_what_jax_says():
    assert capabilities._chosen() is None
    [cpu, *_] = jax.local_devices(backend="cpu")
    with jax.default_device(cpu):
        assert capabilities._chosen() is cpu
        assert capabilities.of_program() == 89


@pytest.mark.usefixtures("machine")
def test_a_cpu_among_the_devices_of_a_program_has_none():
    assert capabilities.of_program(jax.local_devices(backend="cpu")) == 89


def test_a_device_says_itself_what_it_is(machine):
    machine[0].device_kind = "NVIDIA Abacus"
    machine[0].compute_capability = "13.1"
    assert capabilities.of_program() == 131
    with gpu_of("NVIDIA Abacus"):
        assert capabilities.of_program([machine[1]]) == 131


@pytest.mark.usefixtures("machine")
def test_gpus_of_others_have_none():
    assert capabilities.of_program([gpu("AMD", "gfx90a")]) == 89


@pytest.mark.usefixtures("machine")
def test_an_abstract_mesh_names_what_is_not_here():
    with gpu_of("NVIDIA B200"):
        assert capabilities.of_program() == 100
    with gpu_of("NVIDIA A100"):
        assert capabilities.of_program() == 80
    device = jax.sharding.AbstractDevice("cpu", num_cores=None, platform="cpu")
    mesh = jax.sharding.AbstractMesh((1,), ("device",), abstract_device=device)
    with jax.sharding.use_abstract_mesh(mesh):
        assert capabilities.of_program() == 89


def test_no_gpu_is_known(monkeypatch):
    def none(platform):
        raise RuntimeError(f"no {platform}")

    monkeypatch.setattr(jax, "devices", none)
    assert capabilities.of_program(jax.local_devices(backend="cpu")) is None
