"""A theatre that adapts a language model to a role that it keeps to itself: only adapters travel."""

import string
from pathlib import Path

import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_model
from torch.utils.data import DataLoader, TensorDataset
from transformers import GPT2Config, GPT2LMHeadModel

import securefl

HERE = Path(__file__).parent
ROLES = ("hamlet", "iago", "rosalind")
LETTERS = string.ascii_letters + string.digits + string.punctuation + " \n"
WIDTH = 64
"""Characters that the model sees at once."""


def language_model() -> GPT2LMHeadModel:
    """GPT-2 for single characters: three layers of width 96."""
    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=len(LETTERS), n_positions=WIDTH, n_embd=96, n_layer=3, n_head=4,
            resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=None, eos_token_id=None,
        )
    )  # fmt: skip


def windows(text: str) -> torch.Tensor:
    """Return the text as places in LETTERS, i64 ``(n, WIDTH)``; other characters are left out."""
    places = torch.tensor([LETTERS.index(letter) for letter in text if letter in LETTERS])
    return places[: len(places) // WIDTH * WIDTH].reshape(-1, WIDTH)


def loss_of(logits: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
    """Cross-entropy of each next character, nats."""
    return torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), text[:, 1:].flatten())


def Theatre(name: str) -> securefl.TorchSite:
    """Return the site of one theatre. PEFT freezes the base, so that adapters alone travel."""
    text = windows((HERE / f"{ROLES[int(name.removeprefix('p'))]}.txt").read_text())
    train, test = text[: len(text) * 4 // 5], text[len(text) * 4 // 5 :]
    base = language_model()
    load_model(base, "base.safetensors")
    # GPT-2 keeps its matrices the other way round: fan_in_fan_out.
    layers = ["c_attn", "c_fc", "c_proj"]
    model = get_peft_model(base, LoraConfig(r=8, lora_alpha=16, target_modules=layers, fan_in_fan_out=True))
    return securefl.TorchSite(
        model,
        DataLoader(TensorDataset(train, train), batch_size=16, shuffle=True),
        loss=lambda found, text: loss_of(found.logits, text),
        optimiser=lambda adapters: torch.optim.AdamW(adapters, lr=0.003),
        evaluate=lambda model: (len(test), {"loss": loss_of(model(test).logits, test).item()}),
    )
