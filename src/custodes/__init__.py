"""custodes judges the judges.

Given people's ratings and automatic ratings of the same outputs, it says which automatic metric or LLM judge to trust,
whom it favours, and what the ranking of the systems really is.

    import custodes as cu

    cu.score("texts.jsonl", ["rouge1"])     # metrics of texts, where there are no scores yet
    study = cu.read("ratings.csv")          # or any dataframe, or "demo"
    cu.check(study).problems                # what would fool you
    cu.agreement(study).metrics             # who agrees with people, with intervals
    cu.rates("labels.csv").rates            # pass rates, corrected by human labels
    cu.labelling("labels.csv").outputs      # which outputs to label next
    cu.favoritism(study).systems            # whom each metric favours
    cu.consistency(study).findings          # what a judge looks at beside quality
    cu.ranking(study).errors                # which decisions it gets wrong
    cu.verdict(study)                       # all of that in plain words
    cu.correction(study).pairs              # who is better, corrected by some human annotations
    cu.protocol(study).protocol             # how few annotations would have done
    cu.plan(margins=[0.0, 0.2]).plan        # and how many it will take
    cu.complementarity(study).averages      # how alike metrics are, and people
    cu.ceiling(study).prediction            # how much of people's judgement all metrics predict
    cu.combine(study, target="fluency")     # a better metric from those you have, honestly validated
    cu.validate(other, model="model.json")  # does it hold on another data set?
    cu.gate(study, require="spa>=0.8")      # does a judge still agree with people? for continuous integration
    cu.report(study).save("report.html")    # all of it, in one page
    cu.annotate.new("texts.jsonl", "study.db")  # ask people; study.db is an input of all of these
"""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
