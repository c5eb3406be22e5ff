"""Keras on a loader, by tf.data: python examples/keras_fit.py [EPOCHS]

The images are scikit-learn's of digits.
"""

import sys

import keras
from sklearn.datasets import load_digits

import penstock as ps
from penstock.tensorflow import as_dataset


def main() -> None:
    epochs = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    keras.utils.set_random_seed(0)
    images, labels = load_digits(return_X_y=True)
    columns = {"image": (images / 16).astype("float32"), "label": labels.astype("int64")}
    plan = ps.from_arrays(columns).shuffle(seed=0).batch(32, drop_last=True)
    with ps.Loader(plan) as loader:
        data = as_dataset(loader, lambda batch: (batch["image"], batch["label"]))
        model = keras.Sequential([keras.layers.Input((64,)), keras.layers.Dense(64, "relu"), keras.layers.Dense(10)])
        model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
        history = model.fit(data, epochs=epochs, verbose=0)
    print(f"right in {history.history['accuracy'][-1]:.0%} of the last epoch")


if __name__ == "__main__":
    main()
