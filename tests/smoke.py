"""Live tests that ``make test`` runs: one for each process, transport and end, in some seconds each.

All others are left to ``make live``.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

SMOKE = frozenset(
    {
        # Connections: frames, wills, rules and certificates at each broker.
        "tests/live/test_transport.py::test_frames_arrive_complete_and_in_order[memory]",
        "tests/live/test_transport.py::test_frames_arrive_complete_and_in_order[embedded]",
        "tests/live/test_transport.py::test_frames_arrive_complete_and_in_order[mosquitto]",
        "tests/live/test_transport.py::test_a_restarted_broker_gets_subscriptions_and_waiting_frames[embedded]",
        "tests/live/test_transport.py::test_a_restarted_broker_gets_subscriptions_and_waiting_frames[mosquitto]",
        "tests/live/test_transport.py::test_a_killed_process_leaves_its_last_will[mosquitto]",
        "tests/live/test_transport.py::test_access_rules_keep_parties_apart[embedded]",
        "tests/live/test_transport.py::test_access_rules_keep_parties_apart[mosquitto]",
        "tests/live/test_transport.py::test_a_broker_dies_with_the_process_that_started_it[mosquitto]",
        "tests/live/test_message_limit.py::test_connections_that_end_at_once_are_made_ever_more_rarely",
        "tests/live/test_message_limit.py::test_connections_that_stand_but_carry_nothing_are_no_progress",
        "tests/live/test_failover.py::test_a_party_follows_the_server_to_another_broker[mosquitto]",
        "tests/live/test_bridge.py::test_what_crosses_a_bridge[tls-and-rules]",
        "tests/cases/test_takeover.py::test_another_partys_certificate_ends_no_connection[embedded]",
        # securefl run: launcher, fork server, server, parties, dealer, sites; to its end and stopped.
        "tests/live/test_runs.py::test_the_quickstart_reaches_its_accuracy_and_counts_the_right_parties[mosquitto]",
        "tests/live/test_runs.py::test_tls_with_client_certificates_and_the_embedded_broker_give_the_same_model",
        "tests/live/test_killed.py::test_a_signal_ends_a_run_as_ctrl_c_does[15]",
        "tests/live/test_killed.py::test_a_kill_leaves_no_process_and_no_private_key[launcher-embedded]",
        "tests/live/test_killed.py::test_a_killed_fork_server_ends_the_run_and_all_of_it",
        "tests/live/test_crypten.py::test_a_dealer_that_is_killed_costs_sums_and_then_the_run",
        "tests/live/test_verified.py::test_every_round_is_confirmed_and_has_the_bits_of_the_simulation[mosquitto]",
        "tests/live/test_failing_training.py::test_a_model_that_raises_on_some_data_silences_nobody[embedded]",
        "tests/live/test_sites.py::test_python_takes_the_same_class_for_a_simulation_and_a_run",
        "tests/unit/test_api.py::test_live_audited_and_with_the_bits_of_the_simulation",
        "tests/live/test_monitoring.py::test_every_scrape_of_a_run_can_be_read_and_the_last_has_the_numbers_of_the_summary",
        # Deployments: server and parties as programs of their own.
        "tests/live/test_deployed_leaves.py::test_a_deployed_run_leaves_what_a_local_one_leaves[embedded]",
        "tests/live/test_deployed_leaves.py::test_a_server_that_is_stopped_leaves_its_summary_and_everybody_a_model[15]",
        "tests/live/test_resumed.py::test_a_server_killed_in_a_round_goes_on[mosquitto-release]",
        "tests/live/test_resumed.py::test_sigterm_pauses_after_the_round_and_parties_wait",
        "tests/live/test_ends.py::test_whoever_comes_after_the_end_is_told_and_nobody_else_can_end_a_run[mosquitto]",
        "tests/live/test_accounts.py::test_without_its_account_a_party_is_refused_before_it_connects",
        "tests/live/test_bad_input.py::test_a_broker_that_is_not_trusted_or_does_not_trust_us_is_refused",
    }
)
"""Node ids, each of them of a test marked ``live``."""


def mark_smoke(items: Sequence[pytest.Item], *, whole: bool) -> None:
    """Mark the live tests of the fast tier; ``whole`` if all files are collected.

    Raises:
        pytest.UsageError: all files are collected, and an id in :data:`SMOKE` is not that of a live test,
            or no test of a file in ``tests/live`` is marked.
    """
    live = {item.nodeid: item for item in items if item.get_closest_marker("live")}
    for name in SMOKE & live.keys():
        live[name].add_marker(pytest.mark.smoke)
    if not whole:
        return
    if SMOKE - live.keys():
        raise pytest.UsageError(f"tests/smoke.py: not a live test: {', '.join(sorted(SMOKE - live.keys()))}")
    files = {item.nodeid.partition("::")[0] for item in items if item.nodeid.startswith("tests/live/")}
    unmarked = files - {name.partition("::")[0] for name in live}
    if unmarked:
        raise pytest.UsageError(f"no test is marked live: {', '.join(sorted(unmarked))}")
