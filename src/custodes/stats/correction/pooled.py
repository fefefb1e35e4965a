"""The estimator `pooled`: one additive model of all pairs, in which every annotation informs every margin."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from custodes.stats import ABSENT
from custodes.stats.arrays import Floats, chunks
from custodes.stats.bootstrap import sign_flips, unit_sums
from custodes.stats.clusters import cluster_rows, design_effect, is_clustered, outcomes
from custodes.stats.correction.dirichlet import human_posterior
from custodes.stats.correction.estimator import Estimate, Estimator, PairItems, Remark, margin_of

FEWEST_CLUSTERS = 20
"""Minimum number of clusters for a reliable covariance; with fewer clusters, no pair is decided."""

ADDITIVITY_LEVEL = 0.05
ADDITIVITY_FLIPS = 399
_NOISE = 1e-9


class Margins(NamedTuple):
    """Margins of all pairs under an additive model.

    - `margin`, `error` (..., pairs): the margin of each pair and its standard error.
    - `freedom` (...): degrees of freedom, which are the number of clusters - 1.
    - `clusters` (...): number of annotated clusters.
    - `additivity_p` (...): p-value of the hypothesis that margins are differences of system levels.
    """

    margin: Floats
    error: Floats
    freedom: Floats
    clusters: NDArray[np.int64]
    additivity_p: Floats


@dataclass(frozen=True, kw_only=True)
class PooledEstimate(Estimate):
    """An estimate for all pairs (..., pairs), with `clusters` (...) and `additivity_p` (...) as in `Margins`."""

    clusters: NDArray[np.int64]
    additivity_p: Floats


def pooled_margins(items: PairItems, *, n_flips: int, rng: np.random.Generator) -> Margins:
    """Return the least-squares fit of E[sign of (a, b)] = s_a - s_b to all annotations, which have equal weights.

    The covariance is clustered by unit and multiplied by G / (G - 1) for G clusters.

    Additivity is tested with a wild cluster bootstrap. For each pair, the statistic is the absolute difference between
    the pair's mean and its pooled margin, times the square root of the pair's number of annotations. The largest value
    over all pairs is computed again under each of `n_flips` random sign changes of whole clusters. If b of the values
    under random sign changes are at least as large as the observed value, p = (b + 1) / (flips + 1).

    A margin is NaN if annotations do not connect the two systems. Errors are NaN if there is only one cluster. The
    p-value is NaN without flips, or if no pair's mean can differ from the model (as with two systems).

    >>> systems = np.array([[0, 1], [0, 2], [1, 2]])
    >>> signs = np.array([[1, 1, 0, 1], [1, 1, 1, 1], [0, 1, 0, ABSENT]])
    >>> items = PairItems(human=signs, systems=systems, units=np.arange(4))
    >>> pooled_margins(items, n_flips=99, rng=np.random.default_rng(0)).margin.round(3)
    array([0.725, 1.025, 0.3  ])

    Source: developed for custodes; clusters and wild bootstrap: Cameron, Gelbach and Miller 2008.
    """
    signs, systems = items.human, items.systems
    n_units = int(items.units.max(initial=-1)) + 1
    leading_shape, flat_signs = signs.shape[:-2], signs.reshape(-1, *signs.shape[-2:])
    system_indicators = np.eye(int(systems.max(initial=-1)) + 1)
    contrast_matrix = system_indicators[systems[:, 0]] - system_indicators[systems[:, 1]]
    flip_signs = sign_flips(n_units, n_flips, rng).astype(np.float64)
    field_arrays_of_chunks = [
        _fit(
            flat_signs[replication_slice],
            design=contrast_matrix,
            units=items.units,
            n_units=n_units,
            flip_signs=flip_signs,
        )
        for replication_slice in chunks(len(flat_signs), len(systems) * max(n_units, n_flips))
    ]
    field_arrays = (np.concatenate(field_chunks) for field_chunks in zip(*field_arrays_of_chunks, strict=True))
    return Margins(*(field_array.reshape((*leading_shape, *field_array.shape[1:])) for field_array in field_arrays))


def pooled_estimate(items: PairItems, *, confidence: float, rng: np.random.Generator, **_: object) -> PooledEstimate:
    """Return the estimates of all pairs from the pooled margins.

    A pair is undecided if there are fewer than 20 clusters, or if annotations do not connect its two systems. Its
    interval is then [-1, 1] and its theta is 1/2. If additivity is rejected at level .05, every pair is estimated only
    from the pair's annotations.
    """
    margins = pooled_margins(items, n_flips=ADDITIVITY_FLIPS, rng=rng)
    has_enough_clusters = margins.clusters[..., np.newaxis] >= FEWEST_CLUSTERS
    degrees_of_freedom = np.broadcast_to(margins.freedom[..., np.newaxis], margins.margin.shape)
    estimate = Estimate.from_student_t(
        margins.margin, np.where(has_enough_clusters, margins.error, np.nan), degrees_of_freedom, confidence=confidence
    )
    arrays_of_field = {field_name: np.array(field_values) for field_name, field_values in vars(estimate).items()}
    is_additivity_rejected = has_enough_clusters[..., 0] & (margins.additivity_p <= ADDITIVITY_LEVEL)
    if is_additivity_rejected.any():
        signs = items.human[is_additivity_rejected]
        label_counts: NDArray[Any] = np.stack(
            [(signs == outcome_sign).sum(axis=-1) for outcome_sign in (1, 0, -1)], axis=-1
        )
        if is_clustered(items.units):
            table_of_annotation = np.repeat(np.arange(label_counts[..., 0].size), signs.shape[-1])
            cluster_count_rows = cluster_rows(
                table_of_annotation,
                outcomes(signs).ravel(),
                np.tile(items.units, label_counts[..., 0].size),
                n_cells=3,
                n_tables=label_counts[..., 0].size,
            )
            label_counts = label_counts / design_effect(margin_of, cluster_count_rows).divisor(confidence).reshape(
                *label_counts.shape[:-1], 1
            )
        for field_name, field_values in vars(human_posterior(label_counts, confidence=confidence)).items():
            arrays_of_field[field_name][is_additivity_rejected] = field_values
    return PooledEstimate(**arrays_of_field, clusters=margins.clusters, additivity_p=margins.additivity_p)


def _remarks(estimate: PooledEstimate, aspect_suffix: str) -> Iterator[Remark]:
    """Yield notes that say why the pairs of a study are not pooled."""
    n_clusters, additivity_p = int(estimate.clusters), float(estimate.additivity_p)
    if n_clusters < FEWEST_CLUSTERS:
        yield Remark(
            "few-clusters",
            f"pooled decides no pair{aspect_suffix}: there are {n_clusters} annotated items or clusters, and at least "
            f"{FEWEST_CLUSTERS} are needed",
            n_clusters,
        )
    elif additivity_p <= ADDITIVITY_LEVEL:
        yield Remark(
            "not-additive",
            f"margins are not differences of system levels{aspect_suffix} (p = {additivity_p:.3f}); therefore the rows "
            "of pooled equal the rows of human",
        )


def _fit(
    signs: NDArray[np.int8], *, design: Floats, units: NDArray[np.integer[Any]], n_units: int, flip_signs: Floats
) -> tuple[NDArray[Any], ...]:
    """Return the fields of `Margins` for signs (replications, pairs, items)."""
    is_annotated = signs != ABSENT
    n_annotations_by_cluster = unit_sums(is_annotated, units=units, n_units=n_units)  # (replications, pairs, units)
    sign_sums_by_cluster = unit_sums(np.where(is_annotated, signs, 0), units=units, n_units=n_units)
    n_annotations = n_annotations_by_cluster.sum(axis=2)
    n_clusters = (n_annotations_by_cluster > 0).any(axis=1).sum(axis=1)

    laplacian = np.einsum("rp,pa,pb->rab", n_annotations, design, design, optimize=True)
    laplacian_inverse = np.linalg.pinv(laplacian, rcond=_NOISE, hermitian=True)
    system_levels = np.einsum(
        "rab,pb,rp->ra", laplacian_inverse, design, sign_sums_by_cluster.sum(axis=2), optimize=True
    )
    margin = system_levels @ design.T
    # A margin is determined if its contrast lies in the row space of the design.
    projected_design = np.einsum("pa,rab,rbc->rpc", design, laplacian_inverse, laplacian, optimize=True)
    is_connected_pair = (np.abs(projected_design - design) < 1e-6).all(axis=2)

    residuals_by_cluster = sign_sums_by_cluster - n_annotations_by_cluster * margin[..., np.newaxis]
    scores_by_cluster = np.einsum("rpg,pa->rga", residuals_by_cluster, design, optimize=True)
    influence_by_cluster = np.einsum("rga,rab,pb->rpg", scores_by_cluster, laplacian_inverse, design, optimize=True)
    variance_factor = (n_clusters / np.where(n_clusters > 1, n_clusters - 1, np.nan))[:, np.newaxis]
    standard_error = np.sqrt((influence_by_cluster**2).sum(axis=2) * variance_factor)

    # Contribution of each cluster to the difference between a pair's mean and its pooled margin. The difference is
    # standardised by the number of annotations. Standardisation by the variation of the annotations would reject
    # additivity if annotations are few and equal, because the variation is then 0.
    additivity_residuals_by_cluster = (
        np.where(n_annotations > 0, 1 / np.sqrt(np.maximum(n_annotations, 1)), 0.0)[..., np.newaxis]
        * residuals_by_cluster
    )
    additivity_residuals_by_cluster -= np.sqrt(n_annotations)[..., np.newaxis] * influence_by_cluster
    observed_maximum = np.abs(additivity_residuals_by_cluster.sum(axis=2)).max(axis=1, initial=0.0)
    null_maxima = np.abs(np.einsum("bg,rpg->rbp", flip_signs, additivity_residuals_by_cluster, optimize=True)).max(
        axis=2, initial=0.0
    )
    n_extreme_flips = (null_maxima >= observed_maximum[:, np.newaxis] - _NOISE).sum(axis=1)
    is_additivity_testable = (np.abs(additivity_residuals_by_cluster) > _NOISE).any(axis=(1, 2)) & (len(flip_signs) > 0)
    p_value = np.where(is_additivity_testable, (n_extreme_flips + 1) / (len(flip_signs) + 1), np.nan)
    return (
        np.where(is_connected_pair, margin, np.nan),
        np.where(is_connected_pair, standard_error, np.nan),
        np.where(n_clusters > 1, n_clusters - 1.0, np.nan),
        n_clusters,
        p_value,
    )


POOLED = Estimator(
    name="pooled",
    estimate=pooled_estimate,
    uses_metric=False,
    needs_items=True,
    assumes=Remark(
        "additivity",
        "pooled margins assume that the margin of a pair is the difference of two system levels. If a test rejects "
        "this assumption, every pair is estimated only from its annotations",
    ),
    remarks=_remarks,
)
