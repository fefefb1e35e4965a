"""Every metric of SummEval in the protocol with the paper's rule: annotations saved, and error rates.

    python benchmarks/protocol_by_metric.py [--replications N] [--mixture N]

Needs the real data (../shared/data beside the project). Means over the four aspects; ppi and poststratified over
`--replications`, the mixture model over `--mixture` (few, because it takes about ten seconds per metric and replication
on 2 cores). The last columns are the errors of each metric without human ratings (the paper's Table 4).
"""

from __future__ import annotations

import argparse

import polars as pl
from protocol import DATA, STUDIES, markdown

import custodes as cu

ASKED = ("ppi", "poststratified")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replications", type=int, default=20)
    parser.add_argument("--mixture", type=int, default=2)
    arguments = parser.parse_args()
    file, human = STUDIES["SummEval"]
    if not (DATA / file).exists():
        print("the real data is not there")
        return
    study = cu.read(DATA / file)
    common = {"human": human, "metrics": "*", "resamples": 0}
    closed = cu.protocol(study, estimator=list(ASKED), replications=arguments.replications, **common)
    alone = cu.protocol(study, estimator="naive", replications=1, **common).protocol.filter(pl.col("metric") != "none")
    table = alone.group_by("metric", maintain_order=True).agg(
        *(pl.col(name).mean().alias(f"naive {name}") for name in ("correct", "inversion", "omission", "insertion"))
    )
    results = [closed]
    if arguments.mixture:
        results.append(cu.protocol(study, estimator="mixture", replications=arguments.mixture, **common))
    rows = pl.concat([result.protocol for result in results])
    for estimator in (*ASKED, "mixture"):
        chosen_rows = rows.filter(pl.col("estimator") == estimator)
        means = [pl.col(name).mean().alias(f"{estimator} {name}") for name in ("share", "correct", "inversion")]
        if chosen_rows.height:
            table = table.join(chosen_rows.group_by("metric").agg(*means), on="metric", maintain_order="left")
    print(markdown(table))


if __name__ == "__main__":
    main()
