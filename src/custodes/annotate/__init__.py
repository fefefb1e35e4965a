"""Annotation studies: one file with plan and texts, a site for annotators, and decisions at interim analyses.

In the order of a study:

- `plan`, `plan_file`, `wording`: the question, the annotators and the stopping rule of a study.
- `new_study`, `add_to_study`, `material`, `known_questions`, `rendering`, `safe_html`: texts become a `study_file`.
- `check_study`, `rehearsal`, `simulated_crowd`: problems and costs before annotation starts.
- `service`: the open study. Acts go through one `writer` thread; each is a row of the `event_log`, written to the file
  and applied to the `state`: `participants`, `assignments` of units, and the `engine` that closes pairs.
- `arrivals`, `visits`, `views`, `assignment_policy`, `quality_control`: what annotators see, do and get next.
- `server`, `site`: the pages of annotators and of the owner over HTTP.
- `snapshot`, `forecast`, `study_status`, `export_study`, `completion_codes`: results and progress for the owner.
"""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
