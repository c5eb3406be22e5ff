from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def golden_pictures() -> Path:
    """8 records with JPEGs, class labels and boxes, written by TensorFlow."""
    return Path(__file__).parent.parent / "golden" / "tfrecord" / "images.tfrecord"
