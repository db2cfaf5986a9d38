"""Loading: what decodes, and the one line that a person gets for what does not."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from securefl.base.errors import ConfigError
from securefl.methods.attacks.parts.scale import Scale
from securefl.methods.feasibility import check
from securefl.methods.robust.rules.krum import Krum
from securefl.methods.robust.rules.trimmed_mean import TrimmedMean
from securefl.scenario.behaviours import Kill
from securefl.scenario.load import load_scenario, parse_scenario
from securefl.scenario.resolved import scenario_digest, to_toml
from securefl.scenario.scenario import Scenario
from securefl.training.data.partitions.iid import Iid
from securefl.training.models.parts.mlp import Mlp
from tests.looped import looped
from tests.unit.scenario.samples import SMALL, complaint, small

FILES = sorted((Path(__file__).parents[3] / "scenarios").glob("*.toml"))


def test_defaults_and_integers_where_reals_are_expected() -> None:
    scenario = parse_scenario(SMALL + "[encoding]\nclip = 5\n[server_optimiser]\nlearning_rate = 1\n")
    assert scenario.encoding.clip == 5.0
    assert isinstance(scenario.encoding.clip, float)
    assert isinstance(scenario.server_optimiser.learning_rate, float)
    assert scenario.data.partition == Iid()


@looped(
    "text, message",
    [
        (
            "[secure_sum]\ntreshold = 2",
            "secure_sum.treshold: is not a field (did you mean secure_sum.threshold?)",
        ),
        ("threshold = 2", "threshold: is not a field (did you mean secure_sum.threshold?)"),
        ("clusterin = {}", "clusterin: is not a field (did you mean clustering?)"),
        (
            'aggregation.rule = { type = "krum", trim = 1 }',
            'aggregation.rule.trim: is not a field of type = "krum" (fields here: byzantine)',
        ),
        (
            'aggregation.rule = { type = "trimmed-mean" }',
            'aggregation.rule.trim: is missing (a number, or { trim = "count", beta = 0.1 })',
        ),
        (
            'aggregation.rule = { type = "mean", trim = 1 }',
            'aggregation.rule.trim: is not a field of type = "mean" (the only field here is type)',
        ),
        (
            'aggregation.rule = { type = "trimed-mean", trim = 1 }',
            'aggregation.rule.type: "trimed-mean" is not a choice'
            " (did you mean trimmed-mean? choose one of bulyan, centred-clipping, fltrust,"
            " geometric-median, inner-product, krum, mean, mean-around-median, median, minimum-diameter,"
            " multi-krum, sign-majority, trimmed-mean, zeno++)",
        ),
        (
            "aggregation.rule = { trim = 1 }",
            "aggregation.rule.type: is missing (set it to one of bulyan, centred-clipping, fltrust,"
            " geometric-median, inner-product, krum, mean, mean-around-median, median, minimum-diameter,"
            " multi-krum, sign-majority, trimmed-mean, zeno++)",
        ),
        (
            'aggregation.rule = "mean"',
            'aggregation.rule: expected table, found "mean" (write { type = "mean" })',
        ),
        (
            "clustering.size = 0",
            "clustering.size: expected int >= 1, found 0 (docs/fields.md lists all fields)",
        ),
        (
            'clustering.size = "3"',
            'clustering.size: expected int, found "3" (docs/fields.md lists all fields)',
        ),
        (
            "participation.fraction = 1.5",
            "participation.fraction: expected float <= 1.0, found 1.5 (docs/fields.md lists all fields)",
        ),
        (
            "expect = [{ metric = 'accurcy' }]",
            'expect.0.metric: "accurcy" is not a choice (did you mean accuracy? choose one of aborted, '
            "accuracy, backdoor_success, checks_failed, clusters_lost, dishonest_counted, epsilon, "
            "evaluation, false_alarms, opened_sums, refusals, rounds, skippers_failed, survivors, "
            "updates_refused, verified_rounds)",
        ),
        (
            'data.set = "cifar"',
            "data.set: expected digits, mnist, fashion-mnist, cifar10, shakespeare, npz:PATH, csv:PATH,"
            ' parquet:PATH, idx:DIR, folder:DIR or module:function, found "cifar"',
        ),
        ("encoding.range = inf", "encoding.range: must be a finite number, found inf"),
        ("encoding.clip = nan", "encoding.clip: must be a finite number, found nan"),
        (
            'encoding.clip = "non"',
            'encoding.clip: "non" is not a choice (did you mean none? choose one of a number, none)',
        ),
        (
            "secure_sum.validate = { norm = 0 }",
            "secure_sum.validate.norm: expected float > 0.0, found 0 (docs/fields.md lists all fields)",
        ),
        (
            "secure_sum.validate = { norm = 1, norms = 2 }",
            "secure_sum.validate.norms: is not a field (did you mean secure_sum.validate.norm?)",
        ),
        (
            "secure_sum.validate = 3",
            "secure_sum.validate: expected string or table, found 3"
            " (none or a table of norm, projections, failure)",
        ),
        (
            'weighting.cap = "all"',
            'weighting.cap: expected int or nothing, found "all" (docs/fields.md lists all fields)',
        ),
        (
            "training.epochs = true",
            "training.epochs: expected int, found True (docs/fields.md lists all fields)",
        ),
        ('data.set = "npz:a\\n"', "data.set: must not hold control characters, found 'npz:a\\n'"),
        ("description = 5", "description: expected string, found 5"),
        ("", "name: is missing (docs/fields.md lists all fields)"),
    ],
)
def test_messages(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_scenario(text)
    assert str(caught.value) == message


def test_every_table_has_defaults_but_not_who_takes_part() -> None:
    with pytest.raises(ConfigError, match=r"^parties: is missing"):
        parse_scenario('name = "a"')
    smallest = parse_scenario('name = "a"\nparties = 3\ndata.set = "digits"\nmodel.type = "mlp"')
    assert (smallest.secure_sum.threshold, smallest.secure_sum.min_survivors, smallest.stop.rounds) == (
        2,
        2,
        10,
    )
    check(smallest)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    absent = tmp_path / "absent.toml"
    with pytest.raises(ConfigError, match="file not found") as caught:
        load_scenario(absent)
    assert caught.value.path == str(absent)
    with pytest.raises(ConfigError, match="cannot be read"):
        load_scenario(tmp_path)
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b'name = "\xff"')
    with pytest.raises(ConfigError, match=r"not UTF-8 text \(byte 8\)"):
        load_scenario(binary)


def test_a_byte_order_mark_is_no_part_of_the_file(tmp_path: Path) -> None:
    """As editors on Windows write it."""
    marked = tmp_path / "marked.toml"
    marked.write_bytes(b"\xef\xbb\xbf" + b'name = "a"\nparties = 6\n')
    assert load_scenario(marked).parties == 6


def test_a_syntax_error_names_file_and_line(tmp_path: Path) -> None:
    broken = tmp_path / "broken.toml"
    broken.write_text('name = "a"\nparties = = 3\nseed = 1\n')
    with pytest.raises(ConfigError, match="is not valid TOML: invalid value") as caught:
        load_scenario(broken)
    assert caught.value.path == f"{broken}:2"
    broken.write_text('name = "a"\nparties = [3,')
    with pytest.raises(ConfigError) as caught:
        load_scenario(broken)
    assert caught.value.path == f"{broken}:2"


class TestOverrides:
    def test_values_are_toml_or_bare_words(self) -> None:
        scenario = small(
            "secure_sum.server=active",
            "data.set=npz:/tmp/my data.npz",
            "stop.target = 0.5",
            "model={type='mlp'}",
            "model.hidden=[8, 4]",
            "aggregation.rule={type='krum', byzantine=1}",
        )
        assert scenario.secure_sum.server == "active"
        assert scenario.data.set == "npz:/tmp/my data.npz"
        assert scenario.stop.target == 0.5
        assert scenario.aggregation.rule == Krum(byzantine=1)

    def test_lists_are_indexed_and_appended_to(self) -> None:
        scenario = small(
            "behaviours.0.kind=scale",
            "behaviours.0.factor=-10",
            "behaviours.1={kind='kill', phase='after-keys', parties=['p01']}",
            "behaviours.0.count=1",
        )
        assert scenario.behaviours == (
            Scale(factor=-10, count=1),
            Kill(phase="after-keys", parties=("p01",)),
        )

    def test_another_type_drops_the_fields_of_the_former(self) -> None:
        trimmed = "aggregation.rule={type='trimmed-mean', trim=1}"
        assert small(trimmed, "aggregation.rule.type=mean") == small()
        assert small(trimmed, "aggregation.rule.type=trimmed-mean").aggregation.rule == TrimmedMean(trim=1)

    def test_an_empty_value_removes(self) -> None:
        assert small("stop.patience=2", "stop.patience=") == small()
        assert small("behaviours.0.kind=replay", "behaviours.0=") == small()

    def test_later_ones_win(self) -> None:
        assert small("parties=20", "parties=15").parties == 15

    @pytest.mark.parametrize(
        ("override", "path", "reason"),
        [
            ("parties", "--set parties", "not of the form path=value"),
            ("=3", "--set =3", "not of the form path=value"),
            ("clustering..size=3", "--set clustering..size=3", "not of the form path=value"),
            ("clustering.sise=3", "clustering.sise", "is not a field"),
            ("clustering.size=[", "clustering.size", "is not a TOML value"),
            ("clustering.size=3\nparties=4", "clustering.size", "line break"),
            ("name.x=3", "name.x", r"neither a table nor a list \(set the whole table"),
            ("behaviours.3.kind=drop", "behaviours.3.kind", "the list has 0 entries"),
            ("secure_sum.threshold=two", "secure_sum.threshold", 'found "two"'),
            ("parties=", "parties", "missing"),
        ],
    )
    def test_refused(self, override: str, path: str, reason: str) -> None:
        with pytest.raises(ConfigError, match=reason) as caught:
            small(override)
        assert caught.value.path == path


@given(st.text(max_size=60))
def test_any_text_is_a_scenario_or_a_config_error(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_scenario(text)


@given(st.text(max_size=30), st.text(max_size=30))
def test_any_override_decodes_or_is_a_config_error(path: str, value: str) -> None:
    error = complaint(f"{path}={value}")
    assert error is None or error.reason


def _lower(value: object) -> str:
    """A leaf as TOML spells it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


@given(
    st.sampled_from(
        [
            "name",
            "parties",
            "data",
            "model",
            "secure_sum.threshold",
            "aggregation.rule",
            "behaviours",
            "expect",
        ]
    ),
    st.recursive(
        st.one_of(st.integers(-(2**70), 2**70), st.booleans(), st.just("'x'"), st.just("1979-05-27")),
        lambda inner: st.one_of(
            st.lists(inner, max_size=2).map(lambda items: "[" + ", ".join(map(_lower, items)) + "]"),
            inner.map(lambda item: "{ type = " + _lower(item) + " }"),
        ),
        max_leaves=4,
    ).map(_lower),
)
def test_any_value_of_any_type_decodes_or_is_a_config_error(path: str, value: str) -> None:
    error = complaint(f"{path}={value}")
    assert error is None or error.path.startswith(path)


@looped("path", FILES)
def test_resolved_scenarios_load_to_the_same(path: Path) -> None:
    scenario = load_scenario(path)
    assert parse_scenario(to_toml(scenario)) == scenario


@given(
    st.text(), st.floats(min_value=1e-300, max_value=1e300), st.integers(1, 40), st.lists(st.integers(1, 99))
)
def test_to_toml_keeps_every_value(description: str, rate: float, count: int, hidden: list[int]) -> None:
    scenario = parse_scenario(SMALL)
    changed = Scenario(
        **{
            **{field: getattr(scenario, field) for field in scenario.__struct_fields__},
            "description": description,
            "training": type(scenario.training)(learning_rate=rate, epochs=count),
            "model": Mlp(hidden=tuple(hidden)),
        }
    )
    assert parse_scenario(to_toml(changed)) == changed


def test_the_resolved_scenario_spells_out_defaults() -> None:
    text = to_toml(small())
    assert 'server = "curious"' in text
    assert "[deadlines]" in text
    assert "behaviours = []" in text


class TestDigest:
    def test_ignores_what_honest_parties_do_not_know(self) -> None:
        digest = scenario_digest(small())
        assert len(digest) == 32
        assert digest == scenario_digest(
            small("description=other", "behaviours.0.kind=replay", "expect=[{metric='rounds', at_least=1}]")
        )

    def test_does_not_tell_spelled_out_defaults_apart(self) -> None:
        assert scenario_digest(small()) == scenario_digest(parse_scenario(to_toml(small())))

    @pytest.mark.parametrize(
        "override",
        [
            "training.device=cuda",
            "observer=true",
        ],
    )
    def test_what_a_machine_decides_for_itself_is_not_agreed_upon(self, override: str) -> None:
        assert scenario_digest(small()) == scenario_digest(small(override))

    @pytest.mark.parametrize(
        "override",
        [
            "name=other",
            "parties=13",
            "secure_sum.threshold=3",
            "leakage.mode=report",
            "model={type='mlp', hidden=[65]}",
            "aggregation.rule.type=median",
            "stop.rounds=4",
        ],
    )
    def test_changes_with_everything_else(self, override: str) -> None:
        assert scenario_digest(small()) != scenario_digest(small(override))
