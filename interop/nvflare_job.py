"""Run ``train.py`` of the current directory in NVFlare's own simulator: five sites, ten rounds.

The argument is a folder for its workspace.
"""

import sys

from nvflare.app_opt.pt.recipes.fedavg import FedAvgRecipe
from nvflare.recipe import SimEnv

SITES = [f"p{number:02d}" for number in range(5)]


def main(workspace: str) -> None:
    """Wait for its end; what the script prints goes to stdout."""
    sys.path.insert(0, ".")
    from train import Net  # noqa: PLC0415 - from there

    recipe = FedAvgRecipe(
        name="breast-cancer",
        min_clients=len(SITES),
        num_rounds=10,
        model=Net(),
        train_script="train.py",
        train_args="--epochs 5",
    )
    recipe.execute(SimEnv(clients=SITES, num_threads=len(SITES), workspace_root=workspace)).get_result()


if __name__ == "__main__":
    main(sys.argv[1])
