"""Texts for annotators in each language: pages, sentences of the templates, and attention checks. To add a language,
add a dict with the same keys."""

from __future__ import annotations

from collections.abc import Mapping

ENGLISH = {
    "code": "en",
    "direction": "ltr",
    "comparison": "Comparison {number} of {of}",
    "rating": "Response {number} of {of}",
    "practice": "Practice",
    "practice_why": "The first questions are for practice. Your answers show whether the instructions are clear.",
    "instructions": "Instructions",
    "close": "Close",
    "back": "Back to the question",
    "given": "Context",
    "response": "Response {number}",
    "the_response": "Response",
    "no_text": "(empty)",
    "image_of": "Image of {what}",
    "first_better": "1 is better",
    "second_better": "2 is better",
    "equal": "Equal",
    "next": "Next",
    "number": "A number from {low} to {high}",
    "unfilled": "Please answer every question, then press “Next”.",
    "unread": "Your answer could not be read. Please try again.",
    "cannot": "I cannot judge this",
    "cannot_why": "Why can you not judge this?",
    "language": "I do not understand the language well enough",
    "broken": "Something is missing or not displayed correctly",
    "offensive": "The content is offensive or upsetting",
    "other": "Another reason",
    "undo": "Change my last answer",
    "comment": "Comment",
    "comment_what": "Your comment to the research team",
    "send": "Send",
    "sent": "Thank you, your comment has been sent.",
    "taken_back": "Your last answer has been withdrawn. Please answer again.",
    "consent": "Before you begin",
    "agree_tick": "I have read this and agree to take part.",
    "agree": "Agree and continue",
    "decline": "I do not agree",
    "contact": "Questions about this study:",
    "how_aspects": "Answer every question below the texts, then press “Next”.",
    "how_keys": "Keyboard shortcuts:",
    "how_keys_compare": "1 or ← for the first text, 2 or → for the second text",
    "how_keys_equal": "0 for equal",
    "how_keys_rate": "the digit keys",
    "how_batch": "You can take a break after every {batch} questions. You may stop at any time.",
    "examples": "Examples",
    "example": "Example {number}",
    "right": "Correct answer: {answer}",
    "begin": "Begin",
    "go_on": "Continue",
    "stop_here": "Stop here",
    "break": "Time for a break",
    "break_what": "You have answered {answers} questions so far. Thank you! You can continue at this link at any time.",
    "wait": "Please wait a moment",
    "wait_what": "Other participants are answering the remaining questions. This page checks for a new question every "
    "{seconds} seconds. Please keep the page open.",
    "paused": "The study is paused",
    "paused_what": "Your answers are saved. This page continues automatically when the study resumes.",
    "look_again": "Check again",
    "finished": "Thank you",
    "finished_what": "You have finished. There are no more questions for you.",
    "no-work": "Thank you for coming",
    "no-work_what": "There are no questions left to answer. The time you have spent still counts.",
    "no-work_later": "There are no questions for you at the moment. The study continues. Please open this link again "
    "later. The time you have spent so far already counts.",
    "failed": "Thank you for trying",
    "failed_what": "Some of your answers to the practice questions were not correct, so you cannot "
    "continue. Thank you for your time.",
    "blocked": "Your participation has ended",
    "blocked_what": "Several of your answers to control questions were not correct. If you think that this is a "
    "mistake, please contact us.",
    "excluded": "Your participation has ended",
    "excluded_what": "The research team has ended your participation. If you think that this is a mistake, please "
    "contact us.",
    "stopped": "The study is closed",
    "stopped_what": "The study has been closed. Thank you for your answers.",
    "left": "You have left the study",
    "left_what": "Your earlier answers are saved and count. Thank you for your time.",
    "declined": "You have left the study",
    "declined_what": "Thank you for your time. You may close this page.",
    "erased": "Your data have been erased",
    "erased_what": "No data about you are stored under this link any more. You may close this page.",
    "answers": "Number of answers: {answers}",
    "code_is": "Your completion code",
    "copy_code": "Copy",
    "copied": "Copied.",
    "return": "Return and finish",
    "welcome": "Take part",
    "welcome_what": "You will answer this question {batch} times: “{question}” After that you can "
    "stop, or continue if there are more questions.",
    "worker_id": "Your worker id",
    "empty": "Leave this field empty",
    "start": "Start",
    "comes_back": "This address brings you back to your place in the study. Keep the address private: anyone who "
    "has it can answer in your name.",
    "refused": "No more participants at the moment",
    "refused_what": "The study has enough participants, or too many participants have recently arrived from your "
    "network. Please try again later.",
    "invalid_id": "This worker id is not valid. An id consists of 1 to 100 characters: letters, digits and . _ @ + -. "
    "Please type your id, or start again from the page that sent you here.",
    "absent": "Page not found",
    "absent_what": "This link is not valid or has expired. Please check that you copied the whole link.",
    "too_large": "Your input is too long",
    "too_large_what": "Your input is longer than this site accepts. Please go back and shorten it.",
    "too_many": "Too many requests",
    "too_many_what": "Please wait a minute, then try again.",
    "wrong": "Your request failed",
    "wrong_what": "This site could not read your input. Please go back and try again.",
    "busy": "Your answer is not saved yet",
    "busy_what": "The server cannot save your answer at the moment. Please try again. Until then, your answer stays on "
    "this page.",
    "unable": "The study is not available at the moment",
    "unable_what": "Please try again in a minute. All your answers are saved.",
    "broken_down": "Something went wrong",
    "broken_down_what": "This is our mistake, not yours. Please open your link again. All your earlier answers are "
    "saved.",
    "again": "Try again",
    "offline": "No connection. This page tries again automatically.",
    "kept": "No connection. Your answer will be sent as soon as you are online again. Please keep this page open.",
    "early": "Your answer came too fast and was not counted: the texts had only just appeared. Please answer again.",
    # Default texts of the plan, sentences in place of placeholders, and attention checks.
    "question_compare": "Which response is better?",
    "question_rate": "How good is this response?",
    "question_compare_noun": "Which {noun} is better?",
    "question_rate_noun": "How good is this {noun}?",
    "scale": "Use the whole scale, from {least} (worst) to {most} (best).",
    "scale_of_labels": "Choose one of the two answers: {least} or {most}.",
    "noun": "response",
    "identity_worker_id": "We identify you by your worker id. We never learn your name.",
    "identity_links": "We identify you by your personal link.",
    "identity_open": "We identify you by a random number.",
    "pay": "You receive {answer} for each answer, which is {batch} for a complete batch.",
    "no_pay": "There is no payment for taking part in this study.",
    "no_contact": "Please write to the person who sent you the link.",
    "checks": "Some questions are control questions with a known answer. Control questions show whether participants "
    "read the texts. If you answer too many control questions incorrectly, your participation ends.",
    "qualification": "The first {number} questions have known answers. You can continue if you answer at least "
    "{passed} of them correctly.",
    "check_other": "This text only checks whether participants read both texts. Please answer that the other text is "
    "better.",
    "check_equal": "This text only checks whether participants read both texts. Please answer that both texts are "
    "equal.",
    "check_rating": "This text only checks whether participants read the texts. Please give the rating {least}.",
}

GERMAN = {
    "code": "de",
    "direction": "ltr",
    "comparison": "Vergleich {number} von {of}",
    "rating": "Antwort {number} von {of}",
    "practice": "Übung",
    "practice_why": "Die ersten Fragen dienen der Übung. Ihre Antworten zeigen, ob die Anleitung verständlich ist.",
    "instructions": "Anleitung",
    "close": "Schließen",
    "back": "Zurück zur Frage",
    "given": "Kontext",
    "response": "Antwort {number}",
    "the_response": "Antwort",
    "no_text": "(leer)",
    "image_of": "Bild zu {what}",
    "first_better": "1 ist besser",
    "second_better": "2 ist besser",
    "equal": "Gleich",
    "next": "Weiter",
    "number": "Eine Zahl von {low} bis {high}",
    "unfilled": "Bitte beantworten Sie alle Fragen und drücken Sie dann „Weiter“.",
    "unread": "Ihre Antwort konnte nicht gelesen werden. Bitte versuchen Sie es noch einmal.",
    "cannot": "Das kann ich nicht beurteilen",
    "cannot_why": "Warum können Sie das nicht beurteilen?",
    "language": "Ich verstehe die Sprache nicht gut genug",
    "broken": "Etwas fehlt oder wird nicht richtig angezeigt",
    "offensive": "Der Inhalt ist beleidigend oder verstörend",
    "other": "Ein anderer Grund",
    "undo": "Letzte Antwort ändern",
    "comment": "Anmerkung",
    "comment_what": "Ihre Anmerkung an das Forschungsteam",
    "send": "Senden",
    "sent": "Danke, Ihre Anmerkung wurde gesendet.",
    "taken_back": "Ihre letzte Antwort wurde zurückgenommen. Bitte antworten Sie noch einmal.",
    "consent": "Bevor Sie beginnen",
    "agree_tick": "Ich habe dies gelesen und stimme der Teilnahme zu.",
    "agree": "Zustimmen und weiter",
    "decline": "Ich stimme nicht zu",
    "contact": "Fragen zu dieser Studie:",
    "how_aspects": "Beantworten Sie jede Frage unter den Texten und drücken Sie dann „Weiter“.",
    "how_keys": "Tastenkürzel:",
    "how_keys_compare": "1 oder ← für den ersten Text, 2 oder → für den zweiten Text",
    "how_keys_equal": "0 für gleich",
    "how_keys_rate": "die Zifferntasten",
    "how_batch": "Nach jeweils {batch} Fragen können Sie eine Pause machen. Sie können jederzeit aufhören.",
    "examples": "Beispiele",
    "example": "Beispiel {number}",
    "right": "Richtige Antwort: {answer}",
    "begin": "Beginnen",
    "go_on": "Weitermachen",
    "stop_here": "Hier aufhören",
    "break": "Zeit für eine Pause",
    "break_what": "Sie haben bisher {answers} Fragen beantwortet. Vielen Dank! Unter diesem Link können Sie jederzeit "
    "weitermachen.",
    "wait": "Bitte warten Sie einen Augenblick",
    "wait_what": "Andere Teilnehmende beantworten gerade die übrigen Fragen. Diese Seite sucht alle {seconds} Sekunden "
    "nach einer neuen Frage. Bitte lassen Sie die Seite geöffnet.",
    "paused": "Die Studie ist unterbrochen",
    "paused_what": "Ihre Antworten sind gespeichert. Diese Seite macht automatisch weiter, sobald die Studie "
    "fortgesetzt wird.",
    "look_again": "Noch einmal prüfen",
    "finished": "Vielen Dank",
    "finished_what": "Sie sind fertig. Es gibt keine weiteren Fragen für Sie.",
    "no-work": "Vielen Dank für Ihr Interesse",
    "no-work_what": "Es sind keine Fragen mehr offen. Ihre bisherige Zeit zählt trotzdem.",
    "no-work_later": "Im Augenblick gibt es keine Fragen für Sie. Die Studie läuft weiter. Bitte öffnen Sie diesen "
    "Link später noch einmal. Ihre bisherige Zeit zählt schon jetzt.",
    "failed": "Danke für den Versuch",
    "failed_what": "Einige Ihrer Antworten auf die Übungsfragen waren nicht richtig. Deshalb können Sie nicht "
    "weitermachen. Vielen Dank für Ihre Zeit.",
    "blocked": "Ihre Teilnahme ist beendet",
    "blocked_what": "Mehrere Ihrer Antworten auf Kontrollfragen waren nicht richtig. Wenn Sie das für einen Irrtum "
    "halten, schreiben Sie uns bitte.",
    "excluded": "Ihre Teilnahme ist beendet",
    "excluded_what": "Das Forschungsteam hat Ihre Teilnahme beendet. Wenn Sie das für einen Irrtum halten, schreiben "
    "Sie uns bitte.",
    "stopped": "Die Studie ist geschlossen",
    "stopped_what": "Die Studie wurde geschlossen. Vielen Dank für Ihre Antworten.",
    "left": "Sie haben die Studie verlassen",
    "left_what": "Ihre bisherigen Antworten sind gespeichert und zählen. Vielen Dank für Ihre Zeit.",
    "declined": "Sie haben die Studie verlassen",
    "declined_what": "Vielen Dank für Ihre Zeit. Sie können diese Seite schließen.",
    "erased": "Ihre Daten wurden gelöscht",
    "erased_what": "Unter diesem Link sind keine Daten über Sie mehr gespeichert. Sie können diese Seite schließen.",
    "answers": "Anzahl der Antworten: {answers}",
    "code_is": "Ihr Abschlusscode",
    "copy_code": "Kopieren",
    "copied": "Kopiert.",
    "return": "Zurückkehren und abschließen",
    "welcome": "Teilnehmen",
    "welcome_what": "Sie beantworten {batch}-mal diese Frage: „{question}“ Danach können Sie aufhören oder, "
    "falls es noch Fragen gibt, weitermachen.",
    "worker_id": "Ihre Worker-ID",
    "empty": "Dieses Feld leer lassen",
    "start": "Beginnen",
    "comes_back": "Diese Adresse bringt Sie zurück zu Ihrer Stelle in der Studie. Geben Sie die Adresse nicht weiter: "
    "Wer sie hat, kann in Ihrem Namen antworten.",
    "refused": "Zurzeit ist keine Teilnahme möglich",
    "refused_what": "Die Studie hat genug Teilnehmende, oder aus Ihrem Netzwerk sind vor Kurzem zu viele "
    "Teilnehmende gekommen. Bitte versuchen Sie es später noch einmal.",
    "invalid_id": "Diese Worker-ID ist nicht gültig. Eine Worker-ID besteht aus 1 bis 100 Zeichen: Buchstaben, Ziffern "
    "und . _ @ + -. Bitte geben Sie Ihre Worker-ID ein, oder beginnen Sie noch einmal auf der Seite, von der Sie "
    "kamen.",
    "absent": "Seite nicht gefunden",
    "absent_what": "Dieser Link ist ungültig oder abgelaufen. Bitte prüfen Sie, ob Sie ihn vollständig kopiert haben.",
    "too_large": "Ihre Eingabe ist zu lang",
    "too_large_what": "Ihre Eingabe ist länger, als diese Seite erlaubt. Bitte gehen Sie zurück und kürzen Sie sie.",
    "too_many": "Zu viele Anfragen",
    "too_many_what": "Bitte warten Sie eine Minute und versuchen Sie es dann noch einmal.",
    "wrong": "Ihre Anfrage ist fehlgeschlagen",
    "wrong_what": "Diese Seite konnte Ihre Eingabe nicht lesen. Bitte gehen Sie zurück und versuchen Sie es noch "
    "einmal.",
    "busy": "Ihre Antwort ist noch nicht gespeichert",
    "busy_what": "Der Server kann Ihre Antwort gerade nicht speichern. Bitte versuchen Sie es noch einmal. Bis dahin "
    "bleibt Ihre Antwort auf dieser Seite.",
    "unable": "Die Studie ist zurzeit nicht erreichbar",
    "unable_what": "Bitte versuchen Sie es in einer Minute noch einmal. Alle Ihre Antworten sind gespeichert.",
    "broken_down": "Etwas ist schiefgegangen",
    "broken_down_what": "Das ist unser Fehler, nicht Ihrer. Bitte öffnen Sie Ihren Link noch einmal. Alle Ihre "
    "bisherigen Antworten sind gespeichert.",
    "again": "Noch einmal versuchen",
    "offline": "Keine Verbindung. Diese Seite versucht es automatisch noch einmal.",
    "kept": "Keine Verbindung. Ihre Antwort wird gesendet, sobald Sie wieder online sind. Bitte lassen Sie die Seite "
    "geöffnet.",
    "early": "Ihre Antwort kam zu schnell und wurde nicht gezählt: Die Texte waren gerade erst erschienen. Bitte "
    "antworten Sie noch einmal.",
    # Default texts of the plan, sentences in place of placeholders, and attention checks.
    "question_compare": "Welche Antwort ist besser?",
    "question_rate": "Wie gut ist diese Antwort?",
    "question_compare_noun": "Welcher dieser Texte ({noun}) ist besser?",
    "question_rate_noun": "Wie gut ist dieser Text ({noun})?",
    "scale": "Nutzen Sie die ganze Skala von {least} (am schlechtesten) bis {most} (am besten).",
    "scale_of_labels": "Wählen Sie eine der beiden Antworten: {least} oder {most}.",
    "noun": "Antwort",
    "identity_worker_id": "Wir erkennen Sie an Ihrer Worker-ID. Ihren Namen erfahren wir nie.",
    "identity_links": "Wir erkennen Sie an Ihrem persönlichen Link.",
    "identity_open": "Wir erkennen Sie an einer zufälligen Nummer.",
    "pay": "Sie erhalten {answer} für jede Antwort, das sind {batch} für einen vollständigen Durchgang.",
    "no_pay": "Für die Teilnahme an dieser Studie gibt es keine Bezahlung.",
    "no_contact": "Bitte schreiben Sie an die Person, die Ihnen den Link geschickt hat.",
    "checks": "Einige Fragen sind Kontrollfragen, deren Antwort bekannt ist. Kontrollfragen zeigen, ob die "
    "Teilnehmenden die Texte lesen. Wenn Sie zu viele Kontrollfragen falsch beantworten, endet Ihre Teilnahme.",
    "qualification": "Bei den ersten {number} Fragen ist die Antwort bekannt. Sie können weitermachen, wenn Sie "
    "mindestens {passed} davon richtig beantworten.",
    "check_other": "Dieser Text prüft nur, ob die Teilnehmenden beide Texte lesen. Bitte antworten Sie, dass der "
    "andere Text besser ist.",
    "check_equal": "Dieser Text prüft nur, ob die Teilnehmenden beide Texte lesen. Bitte antworten Sie, dass beide "
    "Texte gleich sind.",
    "check_rating": "Dieser Text prüft nur, ob die Teilnehmenden die Texte lesen. Bitte geben Sie die Bewertung "
    "{least}.",
}

LANGUAGES = {"en": ENGLISH, "de": GERMAN}


NAMED = ("rating", "response", "the_response")
"""Keys of texts that contain the noun for an output."""


def words(language: str, noun: str = "") -> Mapping[str, str]:
    """Return the texts in a language (a BCP 47 tag), with the study's noun for an output. If the language is not
    available, return the English texts.

    >>> words("de-AT")["next"], words("ar")["next"], words("en", "summary")["response"]
    ('Weiter', 'Next', 'Summary {number}')
    """
    phrase_of_key = LANGUAGES.get(language.partition("-")[0].lower(), ENGLISH)
    if not noun:
        return phrase_of_key
    capitalized_noun = (noun[:1].upper() + noun[1:]).replace("{", "{{").replace("}", "}}")
    return {
        **phrase_of_key,
        **{key: phrase_of_key[key].replace(phrase_of_key["the_response"], capitalized_noun) for key in NAMED},
    }
