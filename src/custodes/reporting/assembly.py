"""Report: the answers to all questions about a study on one HTML page."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from itertools import chain, product
from pathlib import Path
from typing import Any, Unpack

import polars as pl

from custodes.answers.question import Rng, document_arguments, resolve_seed
from custodes.answers.result import Result
from custodes.answers.shared_arguments import PreferenceOptions, selection_arguments
from custodes.arguments import check_one_of
from custodes.control_characters import escape_controls
from custodes.data.study import Study
from custodes.errors import InputError
from custodes.evaluate.agreement.differences import CHOOSING, ORDERING
from custodes.evaluate.slices import BY, check_slices
from custodes.evaluate.verdict.verdict import Verdict, asks_for_rates, verdict_of
from custodes.files import make_folder, write_atomically
from custodes.plots.saving import FORMATS, save
from custodes.progress import Progress, silent
from custodes.reporting.page import page
from custodes.reporting.section import Context, Page, Section
from custodes.reporting.sections import SECTIONS
from custodes.stats.rates.posterior import Sampling

SECTION_PROGRESS = "sections"
REQUIRED: Mapping[Page, str] = {
    "both": "agreement",
    "humans": "leaderboard",
    "metrics": "leaderboard",
    "labels": "rates",
}
"""The question that each kind of page must answer."""
STATISTICS = (CHOOSING, ORDERING)
"""Statistics for which figures of agreement are saved."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Report:
    """The results of all questions, and the HTML page that presents them; see `report`.

    `results`: the result of each question. `verdict`: the summary in sentences. `html`: the whole page, created on
    first access.
    """

    results: Mapping[str, Result]
    verdict: Verdict
    context: Context
    sections: Sequence[Section]
    title: str = ""

    @cached_property
    def html(self) -> str:
        """The whole page, which is self-contained."""
        return page(self.context.copy_with_page_rows(), self.verdict, self.sections, title=self.title)

    def tables(self) -> dict[str, pl.DataFrame]:
        """Every table of every result, by the name `question.table`."""
        return {
            f"{question}.{table_name}": table
            for question, result in self.results.items()
            for table_name, table in result.tables().items()
        }

    def to_dict(self) -> dict[str, Any]:
        """All results as plain values: the lines of the verdict, then each result."""
        return self.to_values() | {question: result.to_dict() for question, result in self.results.items()}

    def to_values(self) -> dict[str, Any]:
        """The same values as `to_dict`, except that the tables are frames."""
        return {
            "question": "report",
            "verdict": list(self.verdict.lines()),
            **{question: result.to_values() for question, result in self.results.items()},
        }

    def __repr__(self) -> str:
        return escape_controls(f"<Report of {self.context.study.name}: {', '.join(self.results)}>")

    def __str__(self) -> str:
        """The verdict as text."""
        return str(self.verdict)

    def _repr_html_(self) -> str:
        """HTML for a notebook: the verdict, then each result, which the reader can unfold."""
        return "\n".join(
            [
                self.verdict._repr_html_(),
                *(
                    (
                        f"<details><summary>{escape(question)}</summary>\n{result._repr_html_()}</details>"
                        for question, result in self.results.items()
                    )
                ),
            ]
        )

    def save(self, path: str | Path) -> Path:
        """Write the page atomically. `OptionError` is raised if the page cannot be written."""
        return write_atomically(path, self.html)

    def save_figures(self, path: str | Path, *, format: str = "svg") -> list[Path]:
        """Save the figures of the page in a folder.

        A figure that depends on the aspect is saved for every aspect. A figure of a single metric is saved for the best
        metric of the aspect. `format` is svg, pdf, png, html or json. `OptionError` is raised for any other format, and
        for a folder that is not writable.
        """
        check_one_of("format", format, FORMATS)
        folder, chart_of_name_parts = make_folder(path), self._charts()
        return [
            save(chart, folder / f"{file_stem}.{format}")
            for file_stem, chart in zip(
                file_names(["-".join(filter(None, name_parts)) for name_parts in chart_of_name_parts]),
                chart_of_name_parts.values(),
                strict=True,
            )
        ]

    def _charts(self) -> dict[tuple[str, ...], Any]:
        """The figures, by aspect, name, metric and statistic. A part of the key is empty if the figure does not depend
        on this part."""
        context, chart_of_name_parts = self.context.copy_with_page_rows(), dict[tuple[str, ...], Any]()
        for figure in chain.from_iterable(section.build_content(context)[0] for section in self.sections):
            template_text = str((figure.where, figure.fields, figure.title))
            for aspect, statistic in product(
                context.aspects if "{aspect}" in template_text else context.aspects[:1],
                STATISTICS if "{statistic}" in template_text else STATISTICS[:1],
            ):
                metric = context.best.get(aspect, "")
                name_parts = (
                    aspect if "{aspect}" in template_text else "",
                    figure.id,
                    metric if "{metric}" in template_text or "{corrected}" in template_text else "",
                    statistic if "{statistic}" in template_text else "",
                )
                if (chart := figure.build_content(context, context.choice(aspect, metric, statistic))) is not None:
                    chart_of_name_parts[name_parts] = chart
        return chart_of_name_parts


@document_arguments(
    "custodes report demo -o report.html --figures figures",
    title="Title of the page (default: the name of the study).",
    by=BY,
)
def report(
    study: Study,
    *,
    title: str = "",
    by: str | None = None,
    positive: str | None = None,
    sampling: Sampling = "random",
    confidence: float = 0.95,
    resamples: int = 1000,
    alpha: float = 0.05,
    rng: Rng = 0,
    progress: Progress = silent,
    **setting: Unpack[PreferenceOptions],
) -> Report:
    """Answer all questions about a study in one self-contained HTML page.

    Notes
    -----
    All questions get the same seed and arguments, except that `check` always uses 1000 resamples. The page contains
    `check`, `leaderboard`, `annotators`, `agreement`, `favoritism`, `consistency`, `ranking`, `complementarity` and
    `ceiling` (ridge regression). It also contains `combine` for each aspect (fast methods), `correction` with the best
    metrics, and `protocol` and `plan` with human ratings alone. Without metrics, the page contains `check`,
    `leaderboard`, `annotators`, `protocol` and `plan`. Without human ratings, the page contains `check`,
    `leaderboard`, `consistency` and `complementarity`. For a study of labels, and for ratings with `positive`, the
    page contains `check`, `rates` and `annotators`. If a question cannot be answered for the study, `results` has no
    entry for the question, and the page gives the reason.

    Examples
    --------
    >>> import custodes as cu
    >>> page = cu.report(cu.read("demo"), aspect="fluency", metrics="judge", resamples=20)
    >>> list(page.results)[:3]
    ['check', 'leaderboard', 'annotators']
    """
    rng_or_seed, _ = resolve_seed(rng)
    question_options: dict[str, Any] = {
        "by": by,
        "positive": positive,
        "sampling": sampling,
        "confidence": confidence,
        "resamples": resamples,
        "alpha": alpha,
        **setting,
    }
    context = Context(study=study.with_cache(), options=question_options | {"rng": rng_or_seed, "progress": progress})
    asks_about_labels = asks_for_rates(study, positive, sampling)
    selected_study = context.study.select(**selection_arguments(setting), one_side=True)
    if by and not asks_about_labels:
        check_slices(study, selected_study, by)
    kinds_and_conditions: tuple[tuple[Page, bool], ...] = (
        ("labels", asks_about_labels),
        ("humans", not selected_study.metrics),
        ("metrics", not selected_study.humans),
        ("both", True),
    )
    page_kind = next(kind for kind, applies in kinds_and_conditions if applies)
    required_question = REQUIRED[page_kind]
    sections = tuple(section for section in SECTIONS if page_kind in section.pages)
    for section in progress(sections, total=len(sections), desc=SECTION_PROGRESS):
        section.answer(context)
        if required_question in context.absent:  # the page needs this answer
            raise InputError(f"{study.name}: {context.absent[required_question].removeprefix(f'{study.name}: ')}")
    verdict = verdict_of(context.results)
    verdict = replace(verdict, provenance=replace(context.results[required_question].provenance, question="verdict"))
    context.study = study  # without the cache
    return Report(results=context.results, verdict=verdict, context=context, sections=sections, title=title)


LONGEST = 150
"""Maximum length of a file name in bytes. File systems allow 255 bytes, but some programs append text to a name."""


def file_names(labels: Sequence[str]) -> list[str]:
    """For each label, a file name that is valid on any system.

    A name consists of letters, digits, `-`, `_` and `.`, and its length is limited. A name ends in a digest of the
    label if it would otherwise be empty, truncated, or equal to another name (up to case).

    >>> file_names(["fluency", "a/b", "a:b"])
    ['fluency', 'a_b-c14cddc0', 'a_b-6783a31e']
    """
    safe_names = [re.sub(r"[^\w.-]", "_", label).strip("._") for label in labels]
    normalised_names = [unicodedata.normalize("NFKC", safe_name).casefold() for safe_name in safe_names]
    n_names_of_normalised_name = Counter(normalised_names)
    return [
        safe_name
        if safe_name and n_names_of_normalised_name[normalised_name] == 1 and len(safe_name.encode()) <= LONGEST
        else f"{safe_name.encode()[:LONGEST].decode(errors='ignore') or 'figure'}-"
        f"{hashlib.sha256(label.encode(errors='surrogatepass')).hexdigest()[:8]}"
        for label, safe_name, normalised_name in zip(labels, safe_names, normalised_names, strict=True)
    ]
