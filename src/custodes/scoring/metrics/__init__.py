# ruff: noqa: I001, F401
"""All built-in metrics, in the order of lists. To add a metric, add a file here and an import line below."""

from custodes.plugins import members
from custodes.scoring.metric import Metric

from custodes.scoring.metrics.words import LENGTH, NOVELTY, JS, JS_SOURCE, EXACT, F1
from custodes.scoring.metrics.translations import SACREBLEU
from custodes.scoring.metrics.rouge import ROUGE
from custodes.scoring.metrics.cider import CIDER
from custodes.scoring.metrics.distances import WER, CORPUS_WER, EDIT
from custodes.scoring.metrics.bertscore import BERTSCORE
from custodes.scoring.metrics.cosine import COSINES
from custodes.scoring.metrics.worker import WORKER

METRICS: dict[str, Metric] = {metric.name: metric for metric in members(globals(), Metric)}
