"""Jobs in this process, one after another."""

from __future__ import annotations

from collections.abc import Generator, Sequence

from ladderspec.ablation.jobs import Job, Outcome, perform


def run(jobs: Sequence[Job]) -> Generator[Outcome, None, None]:
    for job in jobs:
        yield perform(job)
