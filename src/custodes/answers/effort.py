"""Rough estimate of the time and memory of a question, from the size of the study."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from custodes.answers.shared_arguments import NONE, selection_arguments
from custodes.arguments import check_arguments, check_one_of
from custodes.data.comparisons import HUMAN
from custodes.data.outcome_counts import OutcomeCounts
from custodes.data.study import Study
from custodes.memory import count_resample_values, fits_in_memory, machine_memory

START = (1.5, 200.0)
"""CPU seconds and megabytes that a question needs for the smallest study."""
PER_ROW = (1e-5, 1e-3)
"""Additional CPU seconds and megabytes for each row."""
PER_DRAW = (4e-8, 2e-6)
"""Additional CPU seconds and megabytes for each combination of item, resample, rater and aspect."""
REPLAY = 10
"""Cost of one replication for one item and one pair of systems, relative to the cost of one resample of one item."""
PASSES = {
    **dict.fromkeys(
        ("check", "favoritism", "ranking", "correction", "consistency", "leaderboard", "annotators", "rates"), 1
    ),
    **dict.fromkeys(("agreement", "complementarity", "protocol", "plan", "gate", "validate", "labelling", "route"), 1),
    "ceiling": 2,
    "verdict": 3,
    "combine": 5,
    "report": 10,
}
"""Relative cost of each question: 1 for a question that reads the data once."""


@dataclass(frozen=True, kw_only=True)
class Effort:
    """Estimated order of magnitude of the CPU `seconds` and peak `megabytes` of a question.

    `sizes` has the sizes of the data (such as the number of items), and the numbers of resamples and replications.
    """

    question: str
    seconds: float
    megabytes: float
    sizes: Mapping[str, int]

    @property
    def fits(self) -> bool:
        """Whether the memory of this machine is sufficient."""
        return fits_in_memory(self.megabytes * 1e6)

    def __str__(self) -> str:
        sizes_text = " x ".join(
            f"{dimension_size:,} {dimension}"
            for dimension, dimension_size in self.sizes.items()
            if dimension_size > (dimension == "aspects")
        )
        memory_warning = "" if self.fits else f"; this machine has only {machine_memory() / 1e9:.0f} GB of memory"
        cost_text = f"about {self.seconds:,.0f} s of CPU and {self.megabytes:,.0f} MB{memory_warning}"
        return f"{self.question}: {cost_text} ({sizes_text or 'assumptions'})"


@check_arguments
def effort(
    question: str, study: Study | OutcomeCounts | None = None, options: Mapping[str, Any] | None = None
) -> Effort:
    """Estimate the CPU time and the memory of a question from the size of its data, without answering the question.

    The estimate gives the order of magnitude. It is the sum of a constant and three terms. The terms are proportional
    to the number of rows, to the product of items, aspects, resamples and raters, and to the product of items,
    aspects, replications and pairs of systems. The time is multiplied by the relative cost of the question.

    Parameters
    ----------
    question : str
        Name of a question, or `report`.
    study : Study or counts, optional
        Data of the question; None for a plan from assumptions.
    options : mapping, optional
        Options of the question; `resamples` and `replications` count as 0 if they are missing.

    Returns
    -------
    Effort
        Its attributes are `seconds`, `megabytes`, `fits` (whether the memory of this machine is sufficient) and
        `sizes` of the data.

    Raises
    ------
    OptionError
        If the question is unknown, or if the options select no data of the study.

    Examples
    --------
    >>> from custodes.data.simulate import demo_study
    >>> print(str(effort("check", demo_study())).split(":")[0])
    check
    """
    check_one_of("question", question, PASSES)
    options = options or {}
    n_draws_of_option = {
        option_name: int(options.get(option_name) or 0) for option_name in ("resamples", "replications")
    }
    size_of_dimension, n_rows = {"items": 0, "systems": 0, "metrics": 0, "annotators": 0, "aspects": 1}, 0
    if isinstance(study, OutcomeCounts):
        size_of_dimension |= {"systems": len(study.systems), "metrics": len(set(study.raters) - {HUMAN})}
    elif study is not None:
        selection = selection_arguments({**study.selection, **options})
        if selection.get("metrics") == NONE:
            selection["metrics"] = None
        study = study.select(**selection, one_side=True)
        n_rows = study.ratings.frame.height + study.preferences.frame.height
        labels_by_dimension = (study.item_labels().to_list(), study.systems, study.metrics, study.humans, study.aspects)
        label_counts = [len(dimension_labels) for dimension_labels in labels_by_dimension]
        size_of_dimension = dict(zip(size_of_dimension, label_counts, strict=True))
    n_pairs = max(1, size_of_dimension["systems"] * (size_of_dimension["systems"] - 1) // 2)
    n_resampled_values = (
        n_draws_of_option["resamples"] * (1 + size_of_dimension["metrics"])
        + REPLAY * n_draws_of_option["replications"] * n_pairs
    ) * (max(1, size_of_dimension["items"]) * max(1, size_of_dimension["aspects"]))
    cpu_seconds, megabytes = (
        fixed_cost + cost_per_row * n_rows + cost_per_draw * n_resampled_values
        for fixed_cost, cost_per_row, cost_per_draw in zip(START, PER_ROW, PER_DRAW, strict=True)
    )
    if n_draws_of_option["resamples"]:
        megabytes = max(
            megabytes, 8e-6 * count_resample_values(n_draws_of_option["resamples"], size_of_dimension["items"] / 8)
        )
    return Effort(
        question=question,
        seconds=cpu_seconds * PASSES[question],
        megabytes=megabytes,
        sizes=size_of_dimension | n_draws_of_option,
    )
