"""All questions in the order of the documentation, with the descriptions that the list of commands shows.

The Python function, the command, the section of the report and the page of the documentation have the name of the
question. The class of the result has the capitalized name.
"""

from collections.abc import Mapping

QUESTIONS: Mapping[str, str] = {
    "check": "Data summary, and problems that would distort results",
    "leaderboard": "Which system is best, by annotators and by each metric",
    "agreement": "How well each metric agrees with the annotators",
    "annotators": "Agreement and reliability of the annotators",
    "rates": "Pass rates by a judge's labels, corrected by human labels",
    "favoritism": "Which systems each metric over-rates or under-rates",
    "consistency": "Position bias, length bias and self-preference of LLM judges",
    "ranking": "Which pairs of systems a metric decides differently from the annotators",
    "verdict": "Summary of the results in sentences",
    "correction": "Outcome of each pair, from few human and many metric ratings",
    "protocol": "Replay of an annotation protocol: how many ratings are enough",
    "labelling": "How many human labels a pass rate needs, and which outputs to label next",
    "route": "Which labels of a judge to accept, and which outputs annotators should label instead",
    "plan": "Cost and error rates of a protocol, before annotating",
    "complementarity": "How differently metrics and annotators rank systems",
    "ceiling": "How well all metrics together predict human ratings",
    "combine": "A combined metric from the metrics of the study",
    "validate": "Validation of a combined metric on another data set",
    "gate": "Whether a metric satisfies requirements, for the exit status of a CI job",
}
