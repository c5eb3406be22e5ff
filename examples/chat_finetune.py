"""Fine-tuning on conversations, learning what the assistant says alone: python examples/chat_finetune.py [STEPS]"""

import json
import sys
import tempfile
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import nn

import penstock as ps

CHATML = """{% for message in messages %}{{ '<|im_start|>' + message.role + '\n' }}{% if message.role == 'assistant' %}
{% generation %}{{ message.content + '<|im_end|>' }}{% endgeneration %}
{% else %}{{ message.content + '<|im_end|>' }}{% endif %}{{ '\n' }}{% endfor %}"""


def data(folder: str, steps: int) -> ps.Dataset:
    """Sums, asked and answered: batches of chats as tokens, padded, with the mask of the answers."""
    tokenizer = Tokenizer(models.BPE({one: i for i, one in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    sums = [[("user", f"What is {a} and {b}?"), ("assistant", f"{a + b}")] for a in range(10) for b in range(10)]
    chats = [{"messages": [{"role": role, "content": text} for role, text in chat]} for chat in sums]
    Path(folder, "chats.jsonl").write_text("\n".join(map(json.dumps, chats)))
    rows = ps.read(f"{folder}/chats.jsonl", columns={"messages": ps.Column(feature="messages", dtype="string")})
    rows = rows.transform(messages=ps.text.ChatTemplate(tokenizer, CHATML))
    return rows.select(["tokens", "assistant_mask"]).shuffle(seed=0).repeat(steps).batch_padded(32)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.token, self.place, self.head = nn.Embedding(258, 64), nn.Embedding(96, 64), nn.Linear(64, 258)
        self.blocks = nn.TransformerEncoder(nn.TransformerEncoderLayer(64, 4, 256, 0.0, batch_first=True), 2)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        causal = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1])
        return self.head(self.blocks(self.token(tokens) + self.place.weight[: len(causal)], causal, is_causal=True))


def main() -> None:
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    torch.manual_seed(0)
    optimizer = torch.optim.AdamW((model := Model()).parameters(), 3e-3)
    with tempfile.TemporaryDirectory() as folder, ps.Loader(data(folder, steps), to="torch") as loader:
        for step, batch in zip(range(steps), loader):
            tokens, learnt = batch["tokens"].long(), batch["assistant_mask"][:, 1:].bool()
            loss = nn.functional.cross_entropy(model(tokens)[:, :-1][learnt], tokens[:, 1:][learnt])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 40 == 0 or step == steps - 1:
                print(f"step {step}: loss {loss.item():.3f} of {int(learnt.sum())} tokens")


if __name__ == "__main__":
    main()
