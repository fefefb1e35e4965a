"""Evaluation of automatic metrics and LLM judges against human ratings.

From human ratings and automatic ratings of the same outputs, custodes determines which metric or LLM judge agrees with
the annotators, which systems it over-rates, and how the systems rank.

    import custodes as cu

    cu.score("texts.jsonl", ["rouge1"])     # scores of texts by metrics
    study = cu.read("ratings.csv")          # or any dataframe, or "demo"
    cu.check(study).problems                # problems in the data
    cu.agreement(study).metrics             # agreement with annotators, with intervals
    cu.rates("labels.csv").rates            # pass rates, corrected by human labels
    cu.labelling("labels.csv").outputs      # outputs to label next
    cu.favoritism(study).systems            # systems that each metric favours
    cu.consistency(study).findings          # biases and failures of judges
    cu.ranking(study).errors                # errors in the decisions of metrics
    cu.verdict(study)                       # summary in sentences
    cu.correction(study).pairs              # outcomes of pairs, corrected with few human annotations
    cu.protocol(study).protocol             # number of annotations needed, by replay of the study
    cu.plan(margins=[0.0, 0.2]).plan        # expected number of annotations
    cu.complementarity(study).averages      # similarity of metrics and annotators
    cu.ceiling(study).prediction            # how well all metrics predict human ratings
    cu.combine(study, target="fluency")     # a combined metric, with held-out validation
    cu.validate(other, model="model.json")  # validation of this combined metric on another data set
    cu.gate(study, require="spa>=0.8")      # requirements on a judge, for continuous integration
    cu.report(study).save("report.html")    # all results on one HTML page
    cu.annotate.new("texts.jsonl", "study.db")  # a new annotation study; all questions read the file study.db
"""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
