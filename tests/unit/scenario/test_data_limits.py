"""What of data, model and behaviours does not go together."""

from __future__ import annotations

import pytest

from tests.unit.scenario.samples import checked, headed, refusal

TEXT = ("data.set=shakespeare", "model.type=lstm")


@pytest.mark.parametrize("partition", ["roles", "iid", "log-normal"])
@pytest.mark.parametrize("model", [("model.type=lstm",), ("model.type=custom", "model.factory=a:b")])
def test_texts_and_their_models(partition: str, model: tuple[str, ...]) -> None:
    assert checked("data.set=shakespeare", *model, f"data.partition.type={partition}")


@pytest.mark.parametrize("kind", [("labels", "labels=2"), ("dirichlet", "alpha=1"), ("class-shares",)])
def test_texts_have_no_label_per_sample(kind: tuple[str, ...]) -> None:
    tag, *fields = kind
    settings = (f"data.partition.{field}" for field in fields)
    error = refusal(*TEXT, f"data.partition.type={tag}", *settings)
    assert error.path == "data.partition.type"
    assert error.reason.startswith(f"{tag} needs one label per sample")


@pytest.mark.parametrize("model", ["softmax", "mlp", "cnn", "group-norm-cnn", "residual-cnn"])
def test_models_of_samples_on_text(model: str) -> None:
    error = refusal("data.set=shakespeare", f"model.type={model}")
    assert error.path == "model.type"
    assert error.reason == f"{model} needs one label per sample, and shakespeare has one per character"
    assert "use lstm" in error.remedy


@pytest.mark.parametrize(
    "name", ["digits", "mnist", "fashion-mnist", "cifar10", "npz:mine.npz", "folder:mine"]
)
def test_text_models_and_roles_on_images(name: str) -> None:
    error = refusal(f"data.set={name}", "model.type=lstm")
    assert (error.path, error.reason) == ("model.type", f"lstm reads text, and {name} is not text")
    error = refusal(f"data.set={name}", "data.partition.type=roles")
    assert error.path == "data.partition.type"
    assert "shakespeare" in error.remedy


def test_a_patch_does_not_fit_on_text() -> None:
    error = refusal(*TEXT, 'behaviours=[{kind="label-flip",count=1},{kind="backdoor",count=1}]')
    assert (error.path, error.reason) == (
        "behaviours.1.kind",
        "backdoor works on images, and shakespeare is text",
    )


@pytest.mark.parametrize(
    ("overrides", "path", "reason", "remedy"),
    [
        (
            ("data.server_fraction=0.1", "data.server_per_class=2"),
            "data.server_per_class",
            "server_fraction is given too",
            "give one of them",
        ),
        (("data.server_set=mnist",), "data.server_set", "how many samples", "set it, as in 2"),
        (
            ("data.server_set=digits", "data.server_per_class=2"),
            "data.server_set",
            "digits is the data set of the parties already",
            "leave it out",
        ),
        (
            (*TEXT, "data.server_per_class=2"),
            "data.server_per_class",
            "needs one label per sample, and shakespeare has one per character",
            "data.server_fraction",
        ),
        (
            (*TEXT, "data.server_set=mnist", "data.server_fraction=0.1"),
            "data.server_set",
            "samples must be of the parties' text: shakespeare",
            "leave out both",
        ),
        (
            ("data.server_set=shakespeare", "data.server_fraction=0.1"),
            "data.server_set",
            "samples must be of the parties' text: shakespeare",
            "leave out both",
        ),
    ],
)
def test_what_the_server_cannot_hold(overrides: tuple[str, ...], path: str, reason: str, remedy: str) -> None:
    error = refusal(*overrides)
    assert error.path == path
    assert reason in error.reason
    assert remedy in error.remedy


def test_what_the_server_may_hold() -> None:
    assert checked(*TEXT, "data.server_fraction=0.1")
    assert checked("data.server_set=mnist", "data.server_per_class=2")
    assert checked("data.server_set=npz:mine.npz", "data.server_fraction=0.1")


def test_shares_of_the_parties_samples() -> None:
    parties = checked("data.shares=1").participants
    error = refusal(f"data.shares={parties + 1}")
    assert (error.path, error.remedy) == ("data.shares", f"at most {parties}, or leave it out")
    assert f"{parties + 1} shares are more than {parties} parties" in error.reason
    assert refusal(*TEXT, "data.partition.type=roles", "data.shares=1").path == "data.shares"
    assert not [note for note in headed(f"data.shares={parties}") if "shares of data" in note]
    notes = headed("data.shares=2")
    assert f"{parties} parties: they hold 2 shares of data, and copies of them" in notes
