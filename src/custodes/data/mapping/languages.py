"""Words in names of columns in German, French, Spanish, Portuguese, Italian, Dutch and Chinese."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def word_list(text: str) -> tuple[str, ...]:
    """The words of a text."""
    return tuple(text.split())


OTHER_LANGUAGES: Mapping[str, Sequence[str]] = {
    "item": word_list(
        "nummer dokument fall beispiel vorgang ticket frage identifiant numero dossier cas documento caso numero_id"
        " voorbeeld geval 编号 序号 样本"
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
"""Words of people."""

TIE_WORDS = word_list(
    "unentschieden gleichstand gleich egalite égalité exaequo empate igual pareggio parita gelijk gelijkspel 平局"
)
"""Verdicts of a tie."""

BINARY_WORDS = (
    ("nein", "ja"),
    ("non", "oui"),
    ("no", "si"),
    ("no", "sí"),
    ("nao", "sim"),
    ("não", "sim"),
    ("nee", "ja"),
)
"""Pairs of labels, the positive one second."""

JUDGE_WORDS = frozenset(word_list("richter juge juez juiz giudice rechter"))
"""Words of judges."""
