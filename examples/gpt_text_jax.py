"""The batches of gpt_text.py for JAX, and a small model of what token follows: python examples/gpt_text_jax.py [STEPS]"""

import sys
import tempfile

import jax
import jax.numpy as jnp
from local_data import packed

import penstock as ps

LENGTH, WIDTH, VOCABULARY = 128, 64, 1024


def logits(weights: dict, batch: dict) -> jax.Array:
    x = weights["token"][batch["tokens"]] + weights["place"][batch["position_ids"]]
    same = (batch["segment_ids"][:, :, None] == batch["segment_ids"][:, None, :]) & jnp.tril(
        jnp.ones((LENGTH, LENGTH), bool)
    )
    queries, keys, values = (x @ weights[name] for name in ("query", "key", "value"))
    scores = jnp.where(same, queries @ keys.transpose(0, 2, 1) / WIDTH**0.5, -1e9)
    x = x + jax.nn.softmax(scores) @ values
    return jax.nn.relu(x @ weights["up"]) @ weights["head"]


def loss_of(weights: dict, batch: dict) -> jax.Array:
    """The mean over tokens that follow one of their own document: no padding, and no first tokens."""
    documents = batch["segment_ids"]
    counts = batch["loss_mask"][:, 1:] & (documents[:, :-1] == documents[:, 1:])
    chances = jax.nn.log_softmax(logits(weights, batch)[:, :-1])
    return -jnp.take_along_axis(chances, batch["tokens"][:, 1:, None], axis=2)[..., 0].mean(where=counts)


@jax.jit
def step(weights: dict, batch: dict) -> tuple[dict, jax.Array]:
    loss, slopes = jax.value_and_grad(loss_of)(weights, batch)
    return jax.tree.map(lambda weight, slope: weight - 0.5 * slope, weights, slopes), loss


def main() -> None:
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    shapes = {"token": (VOCABULARY, WIDTH), "place": (LENGTH, WIDTH), "query": (WIDTH, WIDTH), "key": (WIDTH, WIDTH)}
    shapes |= {"value": (WIDTH, WIDTH), "up": (WIDTH, 4 * WIDTH), "head": (4 * WIDTH, VOCABULARY)}
    keys = jax.random.split(jax.random.key(0), len(shapes))
    weights = {
        name: jax.random.normal(key, shape) * shape[0] ** -0.5 for key, (name, shape) in zip(keys, shapes.items())
    }
    with tempfile.TemporaryDirectory() as folder:
        plan = packed(folder, LENGTH, steps, VOCABULARY)
        for number, batch in enumerate(ps.Loader(plan, to="jax")):
            weights, loss = step(weights, batch)
            if number % 20 == 0 or number == steps - 1:
                print(f"step {number}: loss {loss:.3f}")


if __name__ == "__main__":
    main()
