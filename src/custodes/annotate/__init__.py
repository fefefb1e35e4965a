"""Annotation studies: one file with plan and texts, a site for annotators, and decisions at interim analyses.

The modules, in the order of a study:

- `plan`, `plan_file`, `wording`: the question, the annotators and the stopping rule of a study.
- `new_study`, `stored_study`, `study_material`, `known_questions`, `rendering`, `safe_html`: creation of a `study_file`
  from texts.
- `check_study`, `rehearsal`, `simulated_crowd`: problems and costs before annotation starts.
- `service`: the open study. One `writer` thread performs all actions. Each action is a row of the `event_log`, which is
  written to the file and applied to the `state`. The state consists of the `participants`, and of the `assignments` of
  questions to participants.
- `arrivals`, `visits`, `views`, `assignment_policy`: pages, actions and questions of annotators.
- `server`, `site`: the pages of annotators and of the owner over HTTP.
- `snapshot`, `forecast`, `study_status`, `export_study`: results and progress for the owner.
"""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
