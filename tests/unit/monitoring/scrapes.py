"""Scrapes of an endpoint, read by the parsers of Prometheus' own library."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families

OPENMETRICS = "application/openmetrics-text;version=1.0.0"
"""Format that Prometheus prefers."""
Samples = Mapping[tuple[str, frozenset[tuple[str, str]]], float]


def fetch(url: str, accept: str = "*/*") -> tuple[int, str, str]:
    """Status, kind and text of an answer."""
    try:
        with urlopen(Request(url, headers={"Accept": accept}), timeout=30) as answer:  # noqa: S310
            return answer.status, answer.headers["Content-Type"], answer.read().decode()
    except HTTPError as error:
        return error.code, error.headers["Content-Type"], error.read().decode()


def scrape(url: str) -> Samples:
    """All samples, by name and labels, the same in both formats."""
    status, kind, text = fetch(f"{url}/metrics", OPENMETRICS)
    assert (status, kind.partition(";")[0]) == (200, "application/openmetrics-text")
    assert text.endswith("# EOF\n")
    families = list(openmetrics.text_string_to_metric_families(text))  # type: ignore[no-untyped-call]
    samples = {(s.name, frozenset(s.labels.items())): s.value for f in families for s in f.samples}
    assert len(samples) == sum(len(family.samples) for family in families), "a sample is there twice"
    _, kind, plain = fetch(f"{url}/metrics")
    assert kind.startswith("text/plain")
    assert {one.name for one in text_string_to_metric_families(plain)}
    return samples


def value(samples: Samples, name: str, process: str = "server", **labels: str) -> float:
    """The only sample of this name, process and labels."""
    wanted = {("process", process), *labels.items()}
    (found,) = (number for (sample, known), number in samples.items() if sample == name and wanted <= known)
    return found


def readiness(url: str) -> tuple[int, Any]:
    status, _, text = fetch(f"{url}/readyz")
    return status, json.loads(text)
