"""A small GPT, from files of real text to a loss: tokenized, packed into sequences: python examples/gpt_text.py [STEPS]"""

import sys
import tempfile

import torch
from local_data import packed
from torch import nn

import penstock as ps

LENGTH, WIDTH, VOCABULARY = 128, 64, 1024


class GPT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.token, self.place = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, 0.0, batch_first=True) for _ in range(2)
        )
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens: torch.Tensor, places: torch.Tensor, documents: torch.Tensor) -> torch.Tensor:
        x = self.token(tokens) + self.place(places)
        same = (documents[:, :, None] == documents[:, None, :]) & torch.ones(LENGTH, LENGTH).tril().bool()
        for block in self.blocks:
            x = block(x, src_mask=~same.repeat_interleave(4, dim=0))
        return self.head(x)


def loss_of(model: GPT, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """The mean over tokens that follow one of their own document: padding is in none, and no first token is guessed from the text before."""
    documents, here, following = batch["segment_ids"], slice(None, -1), slice(1, None)
    counts = batch["loss_mask"][:, following] & (documents[:, here] == documents[:, following])
    logits = model(batch["tokens"], batch["position_ids"], documents)[:, here]
    return nn.functional.cross_entropy(logits[counts], batch["tokens"][:, following][counts].long())


def main() -> None:
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    torch.manual_seed(0)
    model = GPT()
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
    with tempfile.TemporaryDirectory() as folder:
        plan = packed(folder, LENGTH, steps, VOCABULARY)
        for step, batch in enumerate(ps.Loader(plan, to="torch")):
            loss = loss_of(model, batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 20 == 0 or step == steps - 1:
                print(f"step {step}: loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
