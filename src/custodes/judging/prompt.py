"""Built-in prompts, and prompts as Jinja files in a sandbox. Each text is enclosed in tags that the text cannot
close."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib.resources import files
from mimetypes import guess_type
from pathlib import Path
from typing import Any

from custodes.data.loading import check_exists, decode_text, read_file_bytes
from custodes.data.outputs import parse_turns
from custodes.errors import InputError, OptionError, join_labels, short_repr, suggestion
from custodes.judging.judge import FEEDBACK, Judge
from custodes.plugins import describe_error

PROMPTS = ("summary", "translation", "answer", "dialogue", "caption", FEEDBACK)
"""Built-in prompts, by task; `FEEDBACK` is for any task."""

SUFFIXES = (".jinja", ".j2", ".txt", ".md")
SHARED = ("mode", "aspect", "definition", "source", "references", "context", "meta", "form", "labels")
VARIABLES: Mapping[str, tuple[str, ...]] = {
    "pairwise": (*SHARED, "a", "b"),
    "pointwise": (*SHARED, "text", "low", "high"),
}
"""Variables of a user's prompt."""

WORDS: Mapping[str, Any] = {
    "input_word": "Input",
    "output_word": "Output",
    "context_word": "Context",
    "definitions": {},
}
"""Default words of the built-in prompts; a prompt may override these words."""

OUTPUTS: Mapping[str, Mapping[str, str]] = {
    "pairwise": {"a": "output-A", "b": "output-B"},
    "pointwise": {"text": "output"},
}
"""Variables of a prompt that contain outputs, and for each variable the name of the tag around the output (the tag also
has a hash)."""

ADDRESSES = ("http://", "https://", "data:image/")
LARGEST = 20 * 2**20
"""Maximum size of an image in bytes: a usual limit of servers."""
HEX = 12
NO_ROLE = re.compile(r"[^\w.-]")
LONGEST_ROLE = 40  # characters
TOO_DEEP = "blocks or expressions are nested too deeply or do not terminate; correct the template"


class FencedText(str):
    """A text between tags. In a prompt, `text` is the text without tags."""

    __slots__ = ("text",)
    text: str


def fence(role: str, text: str, *other_texts: str, system: str = "") -> FencedText:
    """A text between tags. If `system` is given, the name of the system precedes the text. The tags have a hash of the
    text and of `other_texts`, so that these texts cannot contain the closing tag.

    >>> print(fence("source", "Hello"))
    <source-185f8db32271>
    Hello
    </source-185f8db32271>
    """
    tag_name = f"{role}-{_hash(text, *other_texts)}"
    while tag_name in "\0".join((text, *other_texts)):  # practically impossible
        tag_name = f"{role}-{_hash(tag_name)}"
    system_line = f"System: {' '.join(system.split())}\n" if system else ""
    fenced_text = FencedText(f"{system_line}<{tag_name}>\n{text}\n</{tag_name}>")
    fenced_text.text = text
    return fenced_text


@dataclass(frozen=True, kw_only=True)
class ItemTexts:
    """The data of an item: texts, files or addresses of images, and further values as JSON."""

    source: str = ""
    references: Sequence[str] = ()
    context: str = ""
    images: Sequence[str] = ()
    meta: Any = None

    def variables(self, max_references: int) -> dict[str, Any]:
        """The enclosed texts, with at most `max_references` references. Empty texts are not enclosed."""
        dialogue_turns = parse_turns(self.context)
        context_text = _format_dialogue(dialogue_turns) if dialogue_turns else self.context
        return {
            **({"context_word": "Earlier turns of the conversation"} if dialogue_turns else {}),
            "source": fence("source", self.source) if self.source else "",
            "context": fence("context", context_text) if context_text else "",
            "references": [
                fence("reference", reference) for reference in self.references[:max_references] if reference
            ],
            "meta": self.meta,
        }


def _format_dialogue(turns: Sequence[tuple[str, str]]) -> str:
    """The turns of a dialogue as text. Each turn has the name of its role and is enclosed in tags, so that no turn can
    imitate another turn."""
    turn_texts = [turn_text for _, turn_text in turns]
    return "\n\n".join(
        f"{' '.join(NO_ROLE.sub(' ', role).split())[:LONGEST_ROLE] or 'unknown role'}:\n"
        f"{fence('turn', turn_text, *turn_texts)}"
        for role, turn_text in turns
    )


@dataclass(frozen=True)
class Prompt:
    """Compiled prompt of a judge."""

    judge: Judge
    template: Any

    @classmethod
    def load(cls, judge: Judge) -> Prompt:
        """The built-in prompt of this name, or the prompt in a file. An unknown name raises OptionError, which gives
        the allowed names."""
        is_file = judge.prompt not in PROMPTS
        if is_file and not judge.prompt.endswith(SUFFIXES):
            raise OptionError(
                f"prompt={judge.prompt!r} is unknown{suggestion(judge.prompt, PROMPTS)}; allowed: "
                f"{', '.join(PROMPTS)}, or the path of a Jinja file ({' '.join(SUFFIXES)})"
            )
        template_name = judge.prompt if is_file else f"{judge.prompt}.jinja"
        return cls(judge, _compile_template(template_name, judge.mode, is_file=is_file))

    def fill_template(
        self, aspect: str, material: ItemTexts, *outputs: str, displayed_names: Sequence[str] = ("", "")
    ) -> str:
        """The prompt for one output of an item, or for two outputs in presentation order. `displayed_names` are the
        names of systems to display ('' for no name)."""
        judge, error_prefix = self.judge, f"prompt {self.judge.prompt}"
        fenced_text_of_variable = {
            variable_name: fence(tag_role, output, *sorted(outputs), material.source, system=displayed_name)
            for (variable_name, tag_role), output, displayed_name in zip(
                OUTPUTS[judge.mode].items(), outputs, displayed_names, strict=False
            )
        }
        value_of_variable = {
            **WORDS,
            "mode": judge.mode,
            "aspect": aspect,
            "definition": judge.meanings[aspect],
            "form": judge.form,
            "labels": list(judge.answers),
            **({"low": judge.answers[0], "high": judge.answers[-1]} if judge.key == "score" else {}),
            **material.variables(judge.references),
            **fenced_text_of_variable,
        }
        try:
            prompt_text: str = self.template.render(value_of_variable).strip()
        except RecursionError:
            raise OptionError(f"{error_prefix}: {TOO_DEEP}") from None
        except Exception as problem:  # a template can raise anything
            variable_names_text = ", ".join(name for name in VARIABLES[judge.mode] if name in value_of_variable)
            raise OptionError(f"{error_prefix}: {describe_error(problem)}; variables: {variable_names_text}") from None
        for (variable_name, fenced_text), output in zip(fenced_text_of_variable.items(), outputs, strict=True):
            if fenced_text not in prompt_text and output.strip() not in prompt_text:
                raise OptionError(
                    f"{error_prefix}: the prompt does not contain {{{{ {variable_name} }}}}, so the judge would not "
                    f"see the text; add this variable"
                )
        return prompt_text

    @cached_property
    def digest(self) -> str:
        """A hash of the prompt without the texts of items."""
        placeholder_texts = ItemTexts(source="source", references=("reference",), context="context", meta={})
        placeholder_outputs = ("first", "second")[: len(OUTPUTS[self.judge.mode])]
        return _hash(
            *(self.fill_template(aspect, placeholder_texts, *placeholder_outputs) for aspect in self.judge.meanings)
        )


def _hash(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:HEX]


def _compile_template(name: str, mode: str, *, is_file: bool) -> Any:
    """A compiled template, which may include built-in templates. An unknown variable raises an error that lists the
    allowed variables."""
    from jinja2 import FunctionLoader, StrictUndefined, TemplateError, meta
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    file_text_of_name = {}
    if is_file:
        file_text_of_name[name] = decode_text(read_file_bytes(Path(name)), name)
    jinja_environment = ImmutableSandboxedEnvironment(
        loader=FunctionLoader(
            lambda template_name: file_text_of_name.get(template_name) or _built_in_template(template_name)
        ),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    try:
        for template_text in file_text_of_name.values():
            allowed_variables = (*VARIABLES[mode], *WORDS)
            undeclared_variables = meta.find_undeclared_variables(jinja_environment.parse(template_text))
            if unknown_variables := sorted(undeclared_variables - {*allowed_variables, *jinja_environment.globals}):
                raise OptionError(
                    f"prompt {name}: {join_labels(unknown_variables)} is unknown"
                    f"{suggestion(unknown_variables[0], allowed_variables)}; variables of a {mode} "
                    f"prompt: {', '.join(VARIABLES[mode])}"
                )
        return jinja_environment.get_template(name)
    except TemplateError as problem:
        line_number = getattr(problem, "lineno", None)
        raise InputError(
            f"prompt {name}{f', line {line_number}' if line_number else ''}: {problem}; correct the template"
        ) from None
    except (RecursionError, MemoryError, SyntaxError):  # of the parser, or of the compiled code
        raise InputError(f"prompt {name}: {TOO_DEEP}") from None


def _built_in_template(name: str) -> str | None:
    prompt_file = files("custodes.judging") / "prompts" / name
    return (
        prompt_file.read_text(encoding="utf-8")
        if name.removesuffix(".jinja").isalpha() and prompt_file.is_file()
        else None
    )


def image_part(image: str) -> dict[str, Any]:
    """The part of a message with an image: a path, or an address that the server fetches."""
    return {"type": "image_url", "image_url": {"url": image if image.startswith(ADDRESSES) else _image_data_url(image)}}


def _image_data_url(path: str) -> str:
    check_exists(Path(path))
    mime_type, _ = guess_type(path)
    if not (mime_type or "").startswith("image/"):
        raise InputError(
            f"{short_repr(path)}: the suffix is not that of an image; give a .png, .jpg, .webp or .gif file, or an "
            "address"
        )
    file_status = Path(path).stat()
    if file_status.st_size > LARGEST:
        raise InputError(f"{short_repr(path)}: the image is larger than {LARGEST >> 20} MiB; reduce the size")
    return f"data:{mime_type};base64,{_content(path, file_status.st_mtime_ns, file_status.st_size)}"


@lru_cache(maxsize=256)
def _content(path: str, modified_at: int, size: int) -> str:
    """The content of a file as base64 text; a changed file is read again."""
    return base64.b64encode(Path(path).read_bytes()).decode()
