"""Numbers out of pooled words, against naive counting over all samples."""

from __future__ import annotations

import numpy as np
import pytest

from securefl.methods.metrics import MetricWords, metric_words, names_of, said_by
from securefl.methods.metrics.derived import auc, numbers_of
from securefl.scenario.load import parse_scenario
from securefl.training.sites.tables import confusion, score_histogram


def words_of(*metrics: str) -> MetricWords:
    text = 'name = "m"\nparties = 4\n[model]\ntype = "weights"\n'
    found = metric_words(parse_scenario(text, (f"evaluation={{metrics=[{','.join(metrics)}]}}",)), 64)
    assert found is not None
    return found


def numbers(words: MetricWords, samples: int, **values: object) -> dict[str, float]:
    said = said_by(words.evaluation, samples, values)
    return dict(numbers_of(words, words.read(words.encode_values(said))))


def test_auc_is_the_share_of_pairs_in_order() -> None:
    rng = np.random.default_rng(8)
    labels = rng.integers(0, 2, 300)
    scores = np.round(np.clip(rng.normal(0.4 + 0.2 * labels, 0.2), 0, 0.999), 2)
    table = score_histogram(scores, labels, bins=100)
    ones, zeros = scores[labels == 1, None], scores[labels == 0][None]
    naive = float(((ones > zeros) + (ones == zeros) / 2).mean())
    assert auc(*table.astype(np.float64)) == pytest.approx(naive, abs=1e-3)
    assert auc(np.array([1.0, 0]), np.array([0, 1.0])) == 1
    assert auc(np.array([0, 1.0]), np.array([1.0, 0])) == 0
    assert auc(np.array([2.0, 0]), np.array([5.0, 0])) == 0.5


def test_auc_of_one_class_is_no_number() -> None:
    words = words_of("{name='s',kind='histogram',bins=4}")
    assert numbers(words, 4, s=np.array([[1, 1, 1, 1], [0, 0, 0, 0]])) == {}


def test_the_median_lies_inside_its_bin() -> None:
    words = words_of("{name='s',kind='histogram',bins=4,classes=1,lower=-2,upper=2}")
    assert numbers(words, 4, s=np.array([0, 4, 0, 0])) == {"s.median": pytest.approx(-0.5)}
    assert numbers(words, 4, s=np.array([1, 1, 1, 1])) == {"s.median": pytest.approx(0.0)}
    assert numbers(words, 4, s=np.zeros(4)) == {}


def test_a_confusion_gives_accuracy_recall_and_f1() -> None:
    labels, predicted = np.array([0, 0, 0, 1, 1, 2]), np.array([0, 0, 1, 1, 1, 0])
    words = words_of("{name='t',kind='confusion',classes=3}")
    found = numbers(words, 6, t=confusion(labels, predicted, 3))
    assert found["t.accuracy"] == pytest.approx(4 / 6)
    assert found["t.recall.0"] == pytest.approx(2 / 3)
    assert found["t.recall.1"] == 1
    assert found["t.recall.2"] == 0
    assert found["t.f1"] == pytest.approx((2 / 3 + 4 / 5 + 0) / 3)
    of_two = numbers(words_of("{name='t',kind='confusion'}"), 4, t=np.array([[1, 1], [0, 2]]))
    assert of_two["t.f1"] == pytest.approx(4 / 5), "of class 1"


def test_means_and_sums_have_their_own_unit() -> None:
    words = words_of("{name='loss',kind='mean',upper=10}", "{name='cost',kind='sum',lower=-500,upper=100}")
    found = numbers(words, 7, loss=2.5, cost=-123.0)
    assert found["loss"] == pytest.approx(2.5, abs=1e-3)
    assert found["cost"] == pytest.approx(-123.0, abs=1e-2)


def test_names_say_which_way_is_better() -> None:
    words = words_of("{name='loss',kind='mean',better='lower'}", "{name='s',kind='histogram'}")
    assert names_of(words.evaluation) == {"loss": False, "s.auc": True}


def test_a_root_is_of_the_pooled_mean() -> None:
    words = words_of("{name='rmse',kind='mean',upper=400,root=true,better='lower'}")
    errors = np.random.default_rng(3).normal(0, 5, 200)
    found = numbers(words, 200, rmse=float((errors**2).mean()))
    assert found["rmse"] == pytest.approx(np.sqrt((errors**2).mean()), abs=1e-4)
    assert names_of(words.evaluation) == {"rmse": False}


def test_noise_in_an_empty_bin_is_no_end_of_a_column() -> None:
    """Bins within six standard deviations of nothing are empty; a variance within them is unresolved."""
    text = 'name = "m"\nparties = 4\n[model]\ntype = "weights"\n'
    declared = "evaluation={samples=100,metrics=[{name='age',kind='column',upper=4,bins=4}]}"
    noise = ("privacy={unit='party',multiplier=1,delta=1e-5}", "encoding.clip=1")
    words = metric_words(parse_scenario(text, (declared, *noise)), 64)
    assert words is not None
    some = 2 * words.resolution
    below = 0.9 * words.resolution
    # Samples, the sums of u and of u^2, and of four bins two with samples.
    found = numbers_of(words, np.array([2 * some, some, 0.2 * some, below, some, some, below]))
    assert (found["age.low"], found["age.high"]) == (1.0, 3.0)
    assert found["age.std"] == 0


def test_noise_that_leads_a_mean_below_zero_leaves_a_root_of_zero() -> None:
    words = words_of("{name='rmse',kind='mean',upper=400,root=true}")
    assert numbers_of(words, np.array([50.0, -1.0])) == {"rmse": 0.0}
    assert numbers_of(words, np.array([50.0, 60.0])) == {"rmse": 20.0}
