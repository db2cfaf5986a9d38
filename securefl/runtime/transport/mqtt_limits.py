"""Limits of MQTT connections: how long to wait for a broker, and how much may be under way."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MqttLimits:
    """Waiting times (seconds) and bounds (frames) of one MQTT connection.

    ``in_flight`` bounds the frames sent but not acknowledged, ``inbox`` those received but not read; when the
    inbox is full, mosquitto holds back all but its ``max_inflight_messages`` (amqtt holds back nothing).
    ``settled`` is how long a connection must stand for its predecessors' failures to be forgotten: without
    it, two programs with the same client id would push each other out for ever.
    """

    keep_alive: int = 30
    patience: float = 10.0
    give_up_after: float = 60.0
    first_pause: float = 0.1
    longest_pause: float = 5.0
    settled: float = 5.0
    close_within: float = 3.0
    in_flight: int = 16
    inbox: int = 256
