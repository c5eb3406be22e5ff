"""The GPT of the examples learns from documents: not from padding, and not from what happens to lie beside them in a sequence."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps

torch = pytest.importorskip("torch")
EXAMPLES = Path(__file__).parent.parent.parent / "examples"


@pytest.fixture(name="gpt")
def of_the_examples(monkeypatch: pytest.MonkeyPatch) -> Any:
    pytest.importorskip("sklearn")
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import gpt_text

    torch.manual_seed(0)
    yield gpt_text
    for name in ("gpt_text", "local_data"):
        sys.modules.pop(name, None)


def packed(length: int, *documents: int, seed: int = 0) -> dict[str, Any]:
    """One sequence of documents of so many tokens, as a loader gives it: the first document is the same for any seed of the others."""
    fixed, rng = np.random.default_rng(9), np.random.default_rng(seed)
    rows = [(rng if number else fixed).integers(0, 256, count) for number, count in enumerate(documents)]
    plan = ps.from_arrays({"tokens": pa.array(rows, pa.large_list(pa.int64()))}).pack("tokens", length=length)
    with ps.Loader(plan.batch(1, steps=1), to="torch") as loader:
        return dict(next(iter(loader)))


def test_padding_and_borders_do_not_count(gpt: Any) -> None:
    model, batch = gpt.GPT(), packed(gpt.LENGTH, 40, 30)
    loss = gpt.loss_of(model, batch)
    other = {**batch, "tokens": torch.where(batch["loss_mask"], batch["tokens"], 77)}
    assert not torch.equal(other["tokens"], batch["tokens"])
    torch.testing.assert_close(gpt.loss_of(model, other), loss)
    loss.backward()
    logits = model(batch["tokens"], batch["position_ids"], batch["segment_ids"])[0].log_softmax(-1)
    tokens = batch["tokens"][0]
    mine = [-logits[place - 1, tokens[place]] for place in range(1, 70) if place != 40]
    torch.testing.assert_close(loss, torch.stack(mine).mean())


@pytest.mark.slow
@pytest.mark.parametrize("is_training", [True, False])
def test_a_document_does_not_see_its_neighbour(gpt: Any, is_training: bool) -> None:
    model = gpt.GPT().train(is_training)
    found = []
    with torch.set_grad_enabled(is_training):
        for seed in (1, 2):
            batch = packed(gpt.LENGTH, 40, 30, 20, seed=seed)
            found.append(model(batch["tokens"], batch["position_ids"], batch["segment_ids"])[0])
        alone = packed(gpt.LENGTH, 40)
        found.append(model(alone["tokens"], alone["position_ids"], alone["segment_ids"])[0])
    for other in found[1:]:
        torch.testing.assert_close(other[:40], found[0][:40])
    assert not torch.allclose(found[0][40:90], found[1][40:90])
    assert all(logits.isfinite().all() for logits in found), "of padding, too"


@pytest.mark.long
def test_the_model_of_jax_counts_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    jax = pytest.importorskip("jax")
    pytest.importorskip("sklearn")
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import gpt_text_jax as gpt

    shapes = {"token": (256, 64), "place": (128, 64), "query": (64, 64), "key": (64, 64), "value": (64, 64)}
    shapes |= {"up": (64, 256), "head": (256, 256)}
    weights = {name: jax.random.normal(jax.random.key(one), shapes[name]) for one, name in enumerate(shapes)}
    batch = {name: jax.numpy.asarray(column.numpy()) for name, column in packed(128, 40, 30).items()}
    other = {**batch, "tokens": jax.numpy.where(batch["loss_mask"], batch["tokens"], 77)}
    assert np.isclose(gpt.loss_of(weights, other), gpt.loss_of(weights, batch))
    chances = jax.nn.log_softmax(gpt.logits(weights, batch))[0]
    mine = [-chances[place - 1, batch["tokens"][0, place]] for place in range(1, 70) if place != 40]
    assert np.isclose(gpt.loss_of(weights, batch), np.mean(mine), rtol=1e-4)
