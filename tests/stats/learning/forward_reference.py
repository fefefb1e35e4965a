"""Forward selection by its definition."""

from __future__ import annotations

import numpy as np
from sklearn.linear_model import Ridge

from custodes.stats.learning.selection import PENALTY


def reference(x: np.ndarray, y: np.ndarray, fold: np.ndarray, subset: list[int]) -> np.ndarray:
    predicted = np.full(len(y), np.nan)
    for f in set(fold.tolist()) - {-1}:
        train, test = (fold >= 0) & (fold != f), fold == f
        varying = [j for j in subset if np.ptp(x[train, j]) > 0]
        if not varying:
            predicted[test] = y[train].mean()
            continue
        fitted, new = x[train][:, varying], x[test][:, varying]
        low, high = fitted.mean(axis=0) - 3 * fitted.std(axis=0), fitted.mean(axis=0) + 3 * fitted.std(axis=0)
        fitted, new = np.clip(fitted, low, high), np.clip(new, low, high)
        mean, sd = fitted.mean(axis=0), fitted.std(axis=0)
        model = Ridge(alpha=PENALTY * train.sum()).fit((fitted - mean) / sd, y[train])
        predicted[test] = model.predict((new - mean) / sd)
    return predicted
