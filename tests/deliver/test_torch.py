"""Tensors: on the CPU without a copy, on CUDA through pinned memory."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from support.seams import made_bytes

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


def data(samples: int = 4000) -> ps.Dataset:
    ids = np.arange(samples)
    return ps.from_arrays(
        {"id": ids, "x": np.repeat(ids, 100).reshape(samples, 100).astype(np.float32), "text": [str(i) for i in ids]}
    )


def test_the_tensor_lies_where_the_kernel_wrote() -> None:
    places: list[int] = []

    def note(batch):
        places.append(batch["x"].ctypes.data)
        return batch

    with ps.Loader(data(64).map(note).batch(64), to="torch", cpus=1) as loader:
        batch = next(iter(loader))
        assert batch["x"].data_ptr() in places
        assert isinstance(batch["text"], pa.Array)
        assert batch["x"].dtype == torch.float32
        assert batch["id"].dtype == torch.int64


def test_slots_are_used_again_but_never_under_a_tensor() -> None:
    with ps.Loader(data().shuffle(seed=1).batch(500), to="torch", prefetch=1) as loader:
        kept = []
        for _ in range(3):
            kept += [(batch["x"], batch["id"].clone()) for batch in loader]
        for x, ids in kept:
            assert torch.equal(x[:, 7], ids.float())
        kept.clear()
        del x
        made = made_bytes(loader)
        epochs, epoch_bytes = 20, 4000 * 100 * 4
        for _ in range(epochs):
            for _ in loader:
                pass
        again = made_bytes(loader)
        assert again - made < epochs * epoch_bytes / 4, "more slots than may be on their way at once"


@pytest.mark.parametrize(
    "dtype", ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex64"]
)
def test_dtypes(dtype: str) -> None:
    column = np.arange(8).astype(dtype)
    (batch,) = ps.Loader(ps.from_arrays({"x": column, "none": np.zeros((8, 0))}).batch(8), to="torch")
    assert str(batch["x"].dtype) == f"torch.{dtype}"
    assert batch["x"].tolist() == column.tolist()
    assert batch["none"].shape == (8, 0)


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a[::-1],
        lambda a: a[:, ::-1],
        lambda a: np.broadcast_to(a[:1], a.shape),
        lambda a: a.T,
        lambda a: a.astype(">f4"),
    ],
)
def test_what_users_functions_return(view) -> None:
    base = np.arange(64, dtype=np.float32).reshape(8, 8)
    (batch,) = ps.Loader(ps.from_arrays({"x": np.arange(8)}).map(lambda _: {"x": view(base)}).batch(8), to="torch")
    assert batch["x"].tolist() == view(base).tolist()


def test_a_dtype_that_torch_lacks() -> None:
    with pytest.raises(ps.PlanError, match="PyTorch has no dtype like NumPy's"):
        list(ps.Loader(ps.from_arrays({"x": np.zeros(4, dtype=np.longdouble)}).batch(4), to="torch"))


def test_bfloat16() -> None:
    pixels = np.arange(4 * 6 * 6 * 3, dtype=np.uint8).reshape(4, 6, 6, 3)
    dataset = ps.from_arrays({"image": pixels}).transform(image=[ps.image.ToDtype("bfloat16")]).batch(4)
    (batch,) = ps.Loader(dataset, to="torch")
    assert batch["image"].dtype == torch.bfloat16
    wanted = torch.from_numpy(pixels).permute(0, 3, 1, 2).to(torch.bfloat16)
    assert torch.equal(batch["image"], wanted)


@pytest.mark.parametrize("device", [None, "cpu", "cpu:0", torch.device("cpu")])
@pytest.mark.parametrize("to", ["torch", "numpy"])
def test_devices_as_people_write_them(to: str, device: Any) -> None:
    (batch,) = ps.Loader(data(8).batch(8), to=to, device=device)
    assert batch["id"].tolist() == list(range(8))


@pytest.mark.parametrize(
    ("to", "device", "message"),
    [
        ("numpy", "cuda", "use to='torch'"),
        (
            "torch",
            "gpu",
            "device='gpu': not a PyTorch device; write 'cpu', 'cuda' or 'cuda:1'; did you mean 'cuda'",
        ),
        ("torch", "GPU:1", "did you mean 'cuda:1'"),
        ("torch", "cudaa", "did you mean 'cuda'"),
        ("torch", "cuda1", "did you mean 'cuda'"),
        ("torch", "CUDA", "did you mean 'cuda'"),
        ("torch", "", "device='': not a PyTorch device; write 'cpu'"),
        ("torch", "cuda:-1", "write 'cpu', 'cuda'"),
        ("torch", True, "device=True: not a PyTorch device"),
        ("torch", 1.0, "device=1.0: not a PyTorch device"),
        ("torch", "mps", r"device='mps': this PyTorch \(.*\) sees no mps device on this machine; use device='cpu'$"),
        ("torch", torch.device("mps"), "sees no mps device on this machine"),
        ("torch", "xpu", "sees no xpu device on this machine"),
        ("torch", ["cuda"], "write 'cpu', 'cuda'"),
        ("torch", "meta", "device='meta': holds no data"),
        ("torch", "xla", "device='xla': this PyTorch .* sees no xla device"),
        ("torch", "cuda:99", "sees no CUDA device|counted from 0"),
    ],
)
def test_no_such_device(to: Any, device: Any, message: str) -> None:
    if str(device) == "mps" and torch.backends.mps.is_available():
        pytest.skip("this machine has one")
    with pytest.raises(ps.PlanError, match=message):
        ps.Loader(data(8).batch(4), to=to, device=device)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_why_there_is_no_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(
        ps.PlanError, match="CUDA_VISIBLE_DEVICES='' in the environment says which it may see; use device='cpu'"
    ):
        ps.Loader(data(8).batch(4), to="torch", device="cuda")
    monkeypatch.setattr(torch.version, "cuda", None)
    with pytest.raises(ps.PlanError, match="is built without CUDA, so it sees no CUDA device; use device='cpu'"):
        ps.Loader(data(8).batch(4), to="torch", device="cuda")


def test_the_device_that_is_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, found in {"is_available": True, "device_count": 4, "current_device": 3}.items():
        monkeypatch.setattr(torch.cuda, name, lambda found=found: found)
    monkeypatch.setattr(torch.cuda, "Stream", lambda device: device)
    for device, meant in {"cuda": 3, "cuda:1": 1, torch.device("cuda"): 3, torch.device("cuda", 2): 2}.items():
        assert ps.Loader(data(8).batch(4), to="torch", device=device)._deliver.device == torch.device("cuda", meant)
    with pytest.raises(ps.PlanError, match="there are 4 CUDA devices, counted from 0"):
        ps.Loader(data(8).batch(4), to="torch", device="cuda:4")


def large(samples: int = 1500) -> ps.Dataset:
    """Batches of 500 are 10 MB each."""
    ids = np.arange(samples)
    return ps.from_arrays({"id": ids, "x": np.repeat(ids, 5000).reshape(samples, 5000).astype(np.float32)})


@cuda
def test_cuda() -> None:
    with ps.Loader(large().shuffle(seed=1).batch(500), to="torch", device="cuda") as loader:
        for epoch in range(20):
            for step, batch in enumerate(loader):
                ids = torch.from_numpy(loader.sample_ids(epoch, step)).cuda()
                assert batch["x"].is_cuda
                assert torch.equal(batch["id"], ids)
                assert torch.equal(batch["x"], ids.float()[:, None].expand(-1, 5000))


@cuda
def test_cuda_batches_stay_while_the_consumer_is_behind() -> None:
    with ps.Loader(large().shuffle(seed=1).batch(500), to="torch", device="cuda") as loader:
        kept = []
        for epoch in range(12):
            with torch.cuda.stream(torch.cuda.Stream()):
                for step, batch in enumerate(loader):
                    torch.cuda._sleep(20_000_000)
                    kept.append((batch["x"].amin(1), batch["x"].amax(1), batch["id"].clone(), epoch, step))
                    del batch
        torch.cuda.synchronize()
        for low, high, found, epoch, step in kept:
            ids = torch.from_numpy(loader.sample_ids(epoch, step)).cuda()
            assert torch.equal(found, ids)
            assert torch.equal(low, ids.float())
            assert torch.equal(high, ids.float())


@pytest.mark.slow
def test_a_script_that_ends_in_the_midst_of_a_pass_says_nothing() -> None:
    script = "import numpy as np, penstock as ps; batches = iter(ps.Loader(ps.from_arrays({'x': np.zeros((9000, 8))}).batch(2), to='torch')); next(batches)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")
