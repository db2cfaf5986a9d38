"""Train a small GPT-2 on public text, then adapt it to three theatres' roles: only adapters travel.

    python adapt.py

The public text is Python's manual, which comes with Python. Printed: the loss on speeches that nobody trained
on, before and after, and the bytes of an upload, as computed and as counted on the wire.
"""

import argparse
from pathlib import Path
from pydoc_data.topics import topics

import torch
from safetensors.torch import save_model
from theatre import Theatre, language_model, loss_of, windows

import securefl

RING_BYTES = 4
"""Sums are in a ring of 2^32 here: `securefl run` says so at its start."""


def train_base(steps: int) -> torch.nn.Module:
    """Return the base, of public text alone."""
    torch.manual_seed(0)
    model: torch.nn.Module = language_model()
    text = windows("\n".join(topics[name] for name in sorted(topics)))
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.003)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 0.003, total_steps=steps)
    for step in range(steps):
        batch = text[torch.randint(len(text), (32,))]
        optimiser.zero_grad()
        loss = loss_of(model(batch).logits, batch)
        loss.backward()
        optimiser.step()
        schedule.step()
        if step % 100 == 0 or step == steps - 1:
            print(f"base: step {step}, loss {loss.item():.3f}", flush=True)
    return model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--steps", type=int, default=300, help="of training the base")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    base = train_base(asked.steps)
    save_model(base, "base.safetensors")
    theatre = Theatre("p00")
    adapters = theatre.parameters()
    securefl.save_weights("initial.safetensors", adapters)
    # Adapters on another base would be another model.
    changes = {"stop.rounds": asked.rounds, "model.frozen_sha256": theatre.frozen_sha256}
    scenario = securefl.load("federation.toml", changes)
    result = securefl.run(scenario, site="theatre:Theatre", broker="embedded", out=asked.out)
    losses = [measured.value for record in result for measured in record.metrics]
    for number, loss in enumerate(losses):
        print(f"round {number}: loss {loss:.3f}")
    print(f"loss: {losses[0]:.3f} before, {result.metrics['loss']:.3f} after")
    size, whole = sum(array.size for array in adapters.values()), sum(w.numel() for w in base.parameters())
    sent = max(volumes["up"].size for volumes in result.rounds[-1].traffic.values())
    print(f"upload: {size:,} adapter parameters x {RING_BYTES} bytes = {RING_BYTES * size:,} bytes a round")
    print(
        f"counted: {sent:,} bytes a party and round, of which {sent - RING_BYTES * size:,} are the protocol's"
    )
    print(f"without adapters: {whole:,} parameters, {RING_BYTES * whole:,} bytes")


if __name__ == "__main__":
    main()
