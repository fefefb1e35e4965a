"""Common words in column names: roles, annotators, aspects; in English, German, French, Spanish, Portuguese, Italian,
Dutch and Chinese. The words are used only for guesses, warnings and notes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from unicodedata import combining, normalize

import polars as pl

from custodes.data.table import SLIP


def word_list(text: str) -> tuple[str, ...]:
    """The words of a text."""
    return tuple(text.split())


OTHER_LANGUAGES: Mapping[str, Sequence[str]] = {
    "item": word_list(
        "nummer dokument fall beispiel vorgang ticket frage aufgabe identifiant numero dossier cas documento caso"
        " numero_id voorbeeld geval 编号 序号 样本"
    ),
    "system": word_list("modell modele systeme modelo sistema modello systeem 模型 系统"),
    "rater": word_list(
        "bewerter bewerterin prufer pruferin gutachter annotateur annotatrice evaluateur juge anotador anotadora"
        " evaluador avaliador juez annotatore valutatore beoordelaar 标注者 评委"
    ),
    "score": word_list(
        "punkte bewertung note wertung punktzahl score_total puntuacion puntaje nota pontuacao punteggio voto cijfer"
        " 分数 评分 得分"
    ),
    "aspect": word_list("kriterium merkmal critere criterio aspecto aspetto dimensione 维度 标准"),
    "winner": word_list("gewinner sieger gagnant vainqueur ganador vencedor vincitore winnaar 胜者"),
    "text": word_list(
        "ausgabe antwort ubersetzung zusammenfassung reponse sortie traduction resume respuesta salida traduccion"
        " resumen resposta saida traducao risposta uscita traduzione riassunto antwoord uitvoer vertaling"
        " 回答 输出 译文"
    ),
    "source": word_list(
        "eingabe frage quelle quelltext anweisung entree question_utilisateur consigne pregunta entrada fuente pergunta"
        " fonte domanda ingresso istruzione vraag invoer bron 问题 输入 原文 提示"
    ),
    "references": word_list("referenz musterantwort reference_humaine referencia riferimento referentie 参考 参考答案"),
}
"""Words for each role, without accents."""

HUMAN_WORDS = frozenset(
    word_list(
        "mensch menschen menschlich menschliche prufer gutachter bewerter experte humain humaine humains annotateur"
        " expert humano humana anotador experto umano umana annotatore mens menselijk 人工 人类"
    )
)
"""Words for people."""

TIE_WORDS = word_list(
    "unentschieden gleichstand gleich egalite égalité exaequo empate igual pareggio parita gelijk gelijkspel 平局"
)
"""Verdicts that mean a tie."""

BINARY_WORDS = (
    ("nein", "ja"),
    ("non", "oui"),
    ("no", "si"),
    ("no", "sí"),
    ("nao", "sim"),
    ("não", "sim"),
    ("nee", "ja"),
)
"""Pairs of labels; the second label of a pair is positive."""

ENGLISH: Mapping[str, Sequence[str]] = {
    "item": word_list(
        "item item_id doc_id docid doc document document_id segment segment_id seg_id seg sample sample_id example"
        " example_id instance instance_id question_id question qid prompt_id task_id input_id query_id conversation_id"
        " dialogue_id dialog_id pair_id comparison_id battle_id case case_id row_id"
        " number topic topic_id story_id article_id article text_id source_id src_id sentence_id id uid"
        " idx index key hash prompt instruction query story dialogue source src input"
    ),
    "system": word_list(
        "system system_id system_name sys sys_id model model_id model_name generator llm engine method candidate"
        " submission team participant agent bot policy variant approach summarizer mt_system condition provider"
        " assistant provider_id checkpoint deployment model_version prompt_version version configuration config"
        " experiment arm pipeline setup release"
    ),
    "rater": word_list(
        "rater rater_id annotator annotator_id judge judge_id worker worker_id evaluator evaluator_id assessor"
        " assessor_id labeler labeller coder reviewer reviewer_id user user_id expert expert_id turker turker_id"
        " crowd_worker participant_id voter voter_id person metric metric_name scorer who"
    ),
    "score": word_list(
        "score rating value grade mark points likert stars judgement judgment z_score raw_score z answer label overall"
    ),
    "aspect": word_list("aspect dimension criterion criteria attribute quality property facet measure question"),
    "kind": word_list(
        "kind rater_type rater_kind annotator_type annotator_kind evaluator_type evaluator_kind judge_type source_type"
        " score_source source type"
    ),
    "repeat": word_list("repeat run trial attempt repetition rep replicate iteration epoch"),
    "winner": word_list(
        "winner preference verdict choice preferred preferred_system outcome vote better judgment judgement decision"
        " label answer result chosen"
    ),
    "text": word_list(
        "text output response completion generation prediction hypothesis hyp reply answer summary translation content"
        " generated generated_text generated_output output_text response_text system_output model_output model_response"
        " llm_output llm_response model_answer system_response bot_response candidate_output predicted pred"
        " prediction_text final_output assistant_response assistant_message completion_text candidate_text result mt"
        " decoded simplification caption"
    ),
    "source": word_list(
        "source src prompt instruction question query input inputs user_message user_prompt user_input user_query"
        " input_text prompt_text source_text src_text question_text request task_input dialogue dialog history"
        " conversation_history document article doc_text doc post passage story paragraph text context"
    ),
    "references": word_list(
        "references reference ref refs target targets gold golden gold_answer gold_standard ground_truth groundtruth"
        " expected expected_output expected_answer ideal ideal_answer reference_text reference_answer reference_summary"
        " reference_translation reference_output human_reference correct_answer correct_output label_text"
        " human_written highlights gold_answers ground_truths references_text expected_answers answers answer summary"
        " translation"
    ),
    "context": word_list(
        "context contexts passage passages document documents article evidence background retrieved retrieved_context"
        " retrieved_contexts retrieval_context"
        " retrieved_documents knowledge facts system_prompt history"
    ),
    "images": word_list(
        "images image image_path image_file image_url img img_path picture photo photo_path image_paths images_paths"
    ),
    "messages": word_list(
        "messages conversation conversations chat dialog dialogue turns transcript chat_history thread"
    ),
    "order": word_list(
        "order presentation_order swapped is_swapped swap position presentation presented presented_first shown_first"
        " first_shown shown_order flipped is_flipped reversed is_reversed"
    ),
}
NAMES: Mapping[str, Sequence[str]] = {role: (*names, *OTHER_LANGUAGES.get(role, ())) for role, names in ENGLISH.items()}
"""Common names of the columns of each role, in lower case without accents, the most reliable first."""

CLUSTERS = frozenset(
    word_list(
        "cluster cluster_id document document_id doc doc_id docid dialogue dialogue_id dialog dialog_id"
        " conversation conversation_id story story_id article article_id"
    )
)
"""Names of columns of documents and dialogues, which may have several items."""

OUTCOME_PAIRS = (("winner", "loser"), ("chosen", "rejected"), ("preferred", "rejected"), ("winning", "losing"))
"""Common names of the better and the worse system of a verdict."""
WINNER_WORDS = frozenset(better for better, _ in OUTCOME_PAIRS)
SIDES = (
    ("a", "b"),
    ("1", "2"),
    ("left", "right"),
    ("first", "second"),
    ("x", "y"),
    ("baseline", "candidate"),
    *OUTCOME_PAIRS,
)
"""Common parts of column names that distinguish the two systems of a verdict."""

HUMAN = (
    frozenset(
        word_list(
            "human humans expert experts annotator annotators annot anno ann turker turkers mturk amt crowd crowdworker"
            " worker workers rater raters person people participant participants assessor assessors labeler labeller"
            " volunteer voter voters"
        )
    )
    | HUMAN_WORDS
)
MACHINE = frozenset(word_list("llm lm ai auto automatic gpt claude gemini llama"))
"""Words that mark a rater as not human, even if another word of the name looks human ('llm-rater')."""

SCORERS = frozenset(
    word_list(
        "bleu sacrebleu rouge bert bart comet xcomet cometkiwi chrf ter wer cer meteor bleurt bertscore bartscore"
        " moverscore unieval geval eval nist cider spice ppl perplexity utmos prometheus gpt4o reward"
    )
)
"""Parts of the names of metrics."""
MODELS = re.compile(r"gpt|llama|claude|gemini|qwen|mistral|mixtral|deepseek|rouge|chrf")
"""Prefixes of the names of models and metrics."""

PROTOCOLS = frozenset(word_list("mqm da esa sqm"))
"""Protocols of human ratings of translations, with different scales."""
HUMAN_FIRST = PROTOCOLS | {"gold"}
"""A name that begins with one of these words looks human; a metric's name may end in one ('comet-da')."""

PEOPLE_ROLES = (
    frozenset(word_list("annotator worker assessor labeler labeller coder reviewer user expert turker participant"))
    | {"person", "voter"}
    | HUMAN_WORDS
)
"""Words that show, in the name of a column of raters, that the raters are human."""
PERSONS = (PEOPLE_ROLES - {"user"}).union(
    word_list("rater auditor labelled_by labeled_by annotated_by rated_by reviewed_by judged_by checked_by")
)
"""Last words in the names of columns that hold the label or the name of a person: `reviewer`, `labelled_by`."""
CONFIDENCES = frozenset(word_list("confidence certainty"))
"""Words in the names of columns that hold the confidence of a judge in its label."""
METRIC_ROLES = frozenset(word_list("metric metrics scorer"))
"""Words that show, in the name of a column of raters, that the raters are metrics."""

KINDS = {
    **dict.fromkeys(
        word_list("human humans annotation annotator expert person user manual reviewer crowd people"), "human"
    ),
    **dict.fromkeys(
        word_list("metric judge llm eval model auto automatic automated ai api code llm_judge evaluator machine"),
        "metric",
    ),
}
"""Values of a column of kinds, and the kind that each value means."""

ASPECTS = frozenset(
    word_list(
        "accuracy acceptability adequacy adequate appropriate appropriateness brevity clarity coherence"
        " coherent cohesion complexity completeness conciseness consistency consistent correctness coverage"
        " creativity depth diversity empathy engagement engaging engagingness factual factuality faithful"
        " faithfulness fluency fluent focus grammar grammatical grammaticality groundedness harmless"
        " harmlessness helpful helpfulness honesty humor informative informativeness interesting"
        " interestingness likability meaning natural naturalness nonredundancy originality overall quality"
        " readability readable relevance relevancy relevant responsiveness safety sensible sensibleness"
        " simplicity specificity structure style surprise toxicity truthful truthfulness understandability"
        " understandable useful usefulness verbosity"
    )
)
SHORT_ASPECTS = frozenset(word_list("coh flu con cons rel fact fai ade inf gram pyr resp"))
"""Abbreviated names of aspects."""

AVERAGES = frozenset(
    word_list(
        "mean avg average median std sd stdev stddev var variance sem num count n total sum consensus majority"
        " aggregate aggregated"
    )
)
"""Words in the names of columns that are computed from other columns."""

GENERIC = frozenset(
    word_list("score scores rating ratings value avg average mean median label grade annotation judgment")
)
"""Names of ratings without an aspect."""


def normalise_name(name: str) -> str:
    """A name in lower case without accents, with underscores between words: `DocID` and `doc-id` become `doc_id`."""
    name_without_accents = "".join(character for character in normalize("NFKD", name) if not combining(character))
    return re.sub(r"[\W_]+", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name_without_accents).lower()).strip("_")


def split_name(name: str) -> list[str]:
    """The parts of a name."""
    return normalise_name(name).split("_")


def stem(part: str) -> str:
    """A part without its trailing number: `ann1` is `ann`."""
    return part.rstrip("0123456789")


def name_stems(name: str) -> set[str]:
    """The parts of a name without trailing numbers."""
    return {stem(part) for part in split_name(name)}


def parse_kinds(cells: pl.Series) -> pl.Series:
    """The kind of rater that each word means; null for an unknown word."""
    normalised_words = cells.str.strip_chars().str.to_lowercase().str.replace_all(r"[\s-]+", "_")
    return normalised_words.replace_strict(KINDS, default=None, return_dtype=pl.String)


def looks_human(name: str, *, is_declared_metric: bool = False) -> bool:
    """Whether the name of a rater looks human. The words in `HUMAN_FIRST` do not count for a declared metric.

    >>> looks_human("expert_2"), looks_human("human_coherence_ann1"), looks_human("comet-da"), looks_human("mqm")
    (True, True, False, True)
    """
    word_stems = [stem(word) for word in split_name(name)]
    has_human_word = not HUMAN.isdisjoint(word_stems) or (not is_declared_metric and word_stems[0] in HUMAN_FIRST)
    return has_human_word and MACHINE.isdisjoint(word_stems)


def looks_like_person(name: str) -> bool:
    """Whether the name of a column denotes a person. The column then holds labels by this person, or names of persons.

    >>> looks_like_person("reviewer_id"), looks_like_person("labelled_by"), looks_like_person("created_by")
    (True, True, False)
    """
    word_stems = [stem(word) for word in split_name(name) if stem(word) not in ("", "id", "name", "email")]
    return not PERSONS.isdisjoint([*word_stems[-1:], "_".join(word_stems[-2:])]) and MACHINE.isdisjoint(word_stems)


def looks_like_machine(label: str) -> bool:
    """Whether a label names a metric or a model: `gpt4o`, `bert_score`, `rougeL`."""
    return any(stem(word) in MACHINE | SCORERS or MODELS.match(word) for word in split_name(label))


def is_model_name(label: str) -> bool:
    """Whether a label in a column of annotators is the name of a model.

    `gpt-4`, `claude 3` and `llm` are names of models; `Claude` and `Bert` may be names of people.
    """
    label_parts = split_name(label)
    has_several_words_or_digit = len(label_parts) > 1 or any(character.isdigit() for character in label)
    machine_words = {
        word for word in label_parts if stem(word) in MACHINE and (has_several_words_or_digit or len(word) < 4)
    }
    return bool(machine_words) or (has_several_words_or_digit and any(map(MODELS.match, label_parts)))


def kind_of_label(label: str) -> str:
    """The kind of a rater according to its label in a column of raters; '' if the label shows no kind.

    >>> kind_of_label("human"), kind_of_label("arena_user"), kind_of_label("gpt-4"), kind_of_label("Anna")
    ('human', 'human', 'metric', '')
    """
    stems = name_stems(label)
    # MT-bench has raters such as `author_3`.
    if looks_human(label) or (stems & (HUMAN | PEOPLE_ROLES | {"author"}) and not MACHINE & stems):
        return "human"
    return "metric" if is_model_name(label) else ""


def find_averages(column_names: Sequence[str]) -> list[str]:
    """The columns that are computed from other columns, such as means or measures of spread. An example is `human_avg`
    in a table with `human_1`.

    >>> find_averages(["human_1", "human_2", "human_avg", "mean_length"])
    ['human_avg']
    """
    stems_of_column = {name: name_stems(name) for name in column_names}
    return [
        name
        for name, stems in stems_of_column.items()
        if stems & AVERAGES
        and any(
            stems - AVERAGES <= other_stems and not other_stems & AVERAGES for other_stems in stems_of_column.values()
        )
    ]


def looks_like_rater(label: str) -> bool:
    """Whether a part of the name of a column is the number or the name of a rater: `ann1`, `expert_2`, `3`, `r1`."""
    return label.isdigit() or looks_human(label) or bool(re.fullmatch(r"[a-zA-Z]\d+", label))


FACTS_OF_LOGS = frozenset(
    word_list(
        "latency duration elapsed runtime time timestamp timestamps date datetime created updated started finished"
        " ended cost costs price usd eur token tokens ms msec millis secs seconds cpu memory temperature seed retries"
        " attempts status http finish stop id idx index uuid guid hash unnamed url uri page year"
    )
)
"""Words in names of columns that hold neither scores nor systems, such as the latency of a request."""
ACCURACIES = frozenset(word_list("f1 precision recall accuracy"))
"""Words in the names of scores of single words, such as `token_f1`."""
IDS = frozenset(word_list("id idx index uuid guid hash url uri"))
"""Words in names of columns that may identify the item."""
TIME = r"^\d{4}-\d\d?-\d\d?([T ].*)?$|^\d{1,2}[./]\d{1,2}[./]\d{2,4}|^1[5-9]\d{8}(\d{3}|\.\d+)?$|^\d{1,2}:\d\d(:\d\d)?$"
"""Pattern of cells that hold a time."""
TRUTH = frozenset(word_list("true false yes no pass fail passed failed 0 1 good bad correct incorrect t f y n"))
"""Labels that are judgements."""


def is_fact(name: str) -> bool:
    """Whether the name of a column denotes a property of a request or a row. Such a property is not a score.

    >>> is_fact("latency_ms"), is_fact("usage.promptTokens"), is_fact("bleu"), is_fact("token_f1")
    (True, True, False, False)
    """
    return not FACTS_OF_LOGS.isdisjoint(name_stems(name)) and ACCURACIES.isdisjoint(split_name(name))


def is_measure(name: str) -> bool:
    """Whether a column holds a property of a request or a row that cannot be an item label, such as the latency.

    >>> is_measure("latency_ms"), is_measure("trace_id")
    (True, False)
    """
    return is_fact(name) and IDS.isdisjoint(name_stems(name))


def lookup_names(name: str) -> list[str]:
    """The names to look up for a column: the full name, and for a path also the last part. If the last part is a word
    such as `id`, the part before it is used.

    >>> lookup_names("doc_id"), lookup_names("vars.question"), lookup_names("provider.id")
    (['doc_id'], ['vars_question', 'question'], ['provider_id', 'provider'])
    """
    full_name = normalise_name(name)
    path_parts = [
        path_part for path_part in map(normalise_name, name.split(".")) if path_part and not path_part.isdigit()
    ]
    if len(path_parts) < 2:
        return [full_name, full_name.removesuffix("_text")] if full_name.endswith("_text") else [full_name]
    if path_parts[-1] in ("text", "content"):  # `choices` as in the replies of OpenAI-compatible services
        parent_name = "response" if "choices" in path_parts else path_parts[-2]
        return [full_name, parent_name, *([parent_name[:-1]] if parent_name.endswith("s") else []), "content"]
    return [full_name, path_parts[-2] if path_parts[-1] in ("id", "name", "label", "value", "key") else path_parts[-1]]


CORE = {
    "rater": frozenset(
        word_list("rater rated annotator annotated judge judged evaluator evaluated assessor scorer reviewer labeler")
    ),
    "text": frozenset(word_list("output response answer completion generation prediction hypothesis summary reply")),
    "source": frozenset(word_list("prompt question instruction source input query task document article")),
    "references": frozenset(word_list("reference references gold golden expected target truth")),
    "context": frozenset(word_list("context contexts passage passages retrieved evidence")),
    "winner": frozenset(word_list("winner preference preferred verdict choice vote chosen better")),
}
"""Parts of names that suggest a role, for columns without one of the common names."""


def _has_role_word(role: str, name: str) -> bool:
    """Whether a part of a name suggests the role. For outputs, this must be the last part, and no part may suggest a
    source, a reference or a winner."""
    name_words = split_name(name)
    if role == "text":
        return name_words[-1].removesuffix("s") in CORE["text"] and (
            CORE["source"] | CORE["references"] | CORE["winner"]
        ).isdisjoint(name_words)
    return role in ("rater", "winner") and not CORE[role].isdisjoint(name_words)


def find_columns(role: str, column_names: Sequence[str]) -> list[str]:
    """The columns whose names suggest a role. Common names come first (the most reliable first), then misspelled
    names of the role, then names with a part that suggests the role."""
    usual_names = list(NAMES[role])
    if role in ("rater", "system", "aspect"):
        usual_names += [f"{usual_name}{suffix}" for suffix in ("_name", "_model") for usual_name in NAMES[role]]
    rank_of_usual_name = {usual_name: rank for rank, usual_name in reversed([*enumerate(usual_names)])}
    n_usual_names = len(usual_names)
    rank_of_column = {
        name: min(rank_of_usual_name.get(lookup_name, n_usual_names) for lookup_name in lookup_names(name))
        for name in column_names
    }
    usual_column_names, other_column_names = (
        [name for name, rank in rank_of_column.items() if (rank < n_usual_names) == is_usual]
        for is_usual in (True, False)
    )
    return list(
        dict.fromkeys(
            [
                *sorted(usual_column_names, key=rank_of_column.__getitem__),
                *(name for name in other_column_names if get_close_matches(normalise_name(name), [role], cutoff=SLIP)),
                *(name for name in other_column_names if _has_role_word(role, name)),
            ]
        )
    )


def find_side_pairs(column_names: Sequence[str]) -> list[tuple[str, str]]:
    """Pairs of columns whose names differ only in the part that distinguishes two outputs: `model_a` and `model_b`."""
    name_of_words = {tuple(re.findall(r"[a-z]+|\d+", normalise_name(name))): name for name in column_names}
    names_and_other_side_words = [
        (name, (*name_words[:word_index], other_side, *name_words[word_index + 1 :]))
        for name_words, name in name_of_words.items()
        for word_index, word in enumerate(name_words)
        for side, other_side in SIDES
        if word == side
    ]
    return [
        (name, name_of_words[other_side_words])
        for name, other_side_words in names_and_other_side_words
        if other_side_words in name_of_words
    ]
