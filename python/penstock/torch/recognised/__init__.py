"""PyTorch datasets that Penstock knows: batches are made from what they hold, not item by item in Python.

`walk` says what a dataset holds, `hugging_face` what one of Hugging Face's does; `transforms` makes native ops of what becomes of an image.
`open` makes native plans; `batches` makes the batches, of Arrow tables by `tables`, of files by `pipeline`.
"""

from penstock.torch.recognised.batches import Recognised, explain_refusal, recognise
from penstock.torch.recognised.open import from_torch

__all__ = ["Recognised", "explain_refusal", "from_torch", "recognise"]
