"""How the state machines that set a log on fire are run, all of them alike."""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, settings


def under_fire(*, max_examples: int, steps: int) -> settings:
    """Prints what repeats a failure, and does not explain it: that takes longer than finding it."""
    return settings(
        max_examples=max_examples,
        stateful_step_count=steps,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink),
        print_blob=True,
    )
