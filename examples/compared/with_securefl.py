"""Ten sites, one attacker and a trimmed mean in securefl."""

import task

import securefl
from securefl.attacks import Scale
from securefl.rules import TrimmedMean
from securefl.sections import Aggregation, Clustering, Stop


def site(name: str) -> securefl.TorchSite:
    number = int(name.removeprefix("p"))
    return securefl.TorchSite(
        task.new_model(), task.loader(number), train=lambda model, context: task.train(model, number)
    )


attack = Scale(parties=(f"p{task.ATTACKER:02}",), factor=task.FACTOR)

rule = TrimmedMean(trim=1)

securefl.save_weights("initial.safetensors", site("p00"))
scenario = securefl.with_overrides(
    securefl.Scenario(
        name="digits",
        parties=task.SITES,
        clustering=Clustering(size=2),
        aggregation=Aggregation(rule=rule),
        behaviours=(attack,),
        stop=Stop(rounds=task.ROUNDS),
    ),
    {"model": {"type": "weights", "file": "initial.safetensors"}},
)
federation = securefl.Federation(scenario, site=site)

for _record in federation:
    model = task.new_model()
    model.load_state_dict(federation.result.state_dict())
    print(task.accuracy(model))
