"""Logs of Inspect (inspect_ai): `.eval`, which is a zip of JSON, or `.json`; one log, or a folder of several.

Layout: the page "Log Files" of the documentation (inspect.aisi.org.uk/eval-logs.html) and the classes `EvalLog`,
`EvalSample` and `Score` of inspect_ai 0.3 (log version 2); values of scores as `value_to_float` there has them.
"""

from __future__ import annotations

import zipfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from custodes.data.loading import LARGEST, LARGEST_MEMBER
from custodes.data.notes import noted
from custodes.data.readers.logs import Label, LogRecords, label, log_reader, number, parsed, top_keys
from custodes.data.readers.reader import Invalid
from custodes.data.study import Study
from custodes.errors import InputError, MissingExtraError, listed
from custodes.sealed import layout

WHAT = "a log of inspect_ai"
SUFFIX = ".eval"
HEADERS = ("header.json", "_journal/start.json")
"""Who was evaluated on what: of a log that ended, or of one that did not."""
GRADES = {"c": 1.0, "p": 0.5, "i": 0.0, "n": 0.0, "yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
"""Correct, partial, incorrect, no answer; and words for true and false (all in lower case)."""
STEP = 4096


@layout
class _Part(msgspec.Struct):
    text: str = ""


@layout
class _Message(msgspec.Struct):
    content: str | list[_Part] = ""
    role: str = ""


@layout
class _Choice(msgspec.Struct):
    message: _Message


@layout
class _Output(msgspec.Struct):
    choices: list[_Choice] = []


@layout
class _Score(msgspec.Struct):
    value: Any


@layout
class _Sample(msgspec.Struct):
    id: Label
    epoch: int = 1
    input: str | list[_Message] = ""
    target: str | list[str] = ""
    output: _Output | None = None
    scores: dict[str, _Score] | None = None
    attachments: dict[str, str] = {}


@layout
class _Eval(msgspec.Struct):
    task: str
    model: str


@layout
class _Log(msgspec.Struct):
    eval: _Eval
    status: str = "started"
    samples: list[_Sample] | None = None


def read_inspect_ai(files: Sequence[Path], *, where: str, invalid: Invalid) -> Study:
    """A study of scores: item = task/sample, system = model, rater = scorer (of several values: scorer/value).

    Epochs are repeats, the group is the task, texts are the last answer of the model.
    """
    records = LogRecords(where=where)
    unfinished: list[str] = []
    texts: dict[str, Counter[str]] = defaultdict(Counter)
    lists: Counter[str] = Counter()
    for file in files:
        log, samples = _parsed_log(file, records.load(file, file.name))
        records.run(log.eval.task, log.eval.model, file.name)
        if log.status != "success":
            unfinished.append(f"{file.name} ({log.status})")
        for sample in samples:
            _add_sample(sample, f"{log.eval.task}/{label(sample.id)}", log.eval, records, texts, lists)
    mixed = {rater: counts for rater, counts in texts.items() if rater in records.kinds}
    lost = sum(counts.total() for counts in mixed.values())
    if mixed and invalid == "error":
        examples = listed((f"{rater} {value!r}" for rater, counts in mixed.items() for value in counts), limit=3)
        raise InputError(
            f"{where}: {lost} scores are text where others are numbers ({examples}); read are numbers and"
            f" {', '.join(word.upper() if len(word) == 1 else word for word in GRADES)}; leave such scores out and"
            " count them with invalid='drop' (--invalid drop)"
        )
    not_numbers = lists + Counter({rater: counts.total() for rater, counts in texts.items() if rater not in mixed})
    notes = noted(
        ("unfinished-log", len(unfinished), f"{where}: logs of runs that did not end well: {listed(unfinished)}"),
        ("unreadable-score", lost, f"{where}: {lost} scores are text that stands for no number, and were dropped"),
        (
            "score-not-number",
            not_numbers.total(),
            f"{where}: {not_numbers.total()} scores are lists or text, not numbers, and were left out"
            f" ({listed(not_numbers)})",
        ),
    )
    return records.study(notes=notes)


def _is_log(file: Path) -> bool:
    return file.suffix.lower() == SUFFIX or {"eval", "version"} <= top_keys(file)


def _parsed_log(file: Path, data: bytes) -> tuple[_Log, Iterator[_Sample]]:
    """A log, and its samples one after the other."""
    if not zipfile.is_zipfile(file):
        if file.suffix.lower() == SUFFIX:
            raise InputError(f"{file.name}: not a zip file, or a damaged one; copy the log again")
        log = parsed(data, _Log, where=file.name, what=WHAT)
        if log.samples is None:
            raise InputError(f"{file.name}: the log holds no samples; only its header was written")
        return log, iter(log.samples)
    with _archive(file) as archive:
        members = {entry.filename: entry for entry in archive.infolist()}
        header = next((name for name in HEADERS if name in members), None)
        if header is None:
            raise InputError(f"{file.name}: neither {HEADERS[0]} nor {HEADERS[1]} in it; this is no {WHAT[2:]}")
        log = parsed(_member(file, archive, members[header]), _Log, where=f"{file.name}, {header}", what=WHAT)
    names = [name for name in members if name.startswith("samples/") and name.endswith(".json")]
    if sum(members[name].file_size for name in names) > LARGEST:
        raise InputError(f"{file.name}: its samples are over {LARGEST // 2**30} GiB when unpacked; give a part")
    return log, _samples(file, names)


def _samples(file: Path, names: list[str]) -> Iterator[_Sample]:
    with _archive(file) as archive:
        for name in names:
            data = _member(file, archive, archive.getinfo(name))
            yield parsed(data, _Sample, where=f"{file.name}, {name}", what=WHAT)


def _archive(file: Path) -> Any:
    """The zip file, opened by the zipfile of Python 3.14, which reads zstd, or by its backport where there is one."""
    module: Any = zipfile
    with suppress(ImportError):
        from backports.zstd import zipfile as module
    try:
        return module.ZipFile(file)
    except Exception as error:  # zipfile raises half a dozen kinds on damaged bytes
        raise InputError(f"{file.name}: a damaged or truncated zip file ({error}); copy the log again") from None


def _member(file: Path, archive: Any, entry: Any) -> bytes:
    """The bytes of a member, no more than the archive declares: a small step at a time, for a bomb declares little."""
    if entry.file_size > LARGEST_MEMBER:
        raise InputError(f"{file.name}: {entry.filename} is over {LARGEST_MEMBER // 2**20} MiB when unpacked")
    try:
        with archive.open(entry) as stream:
            return b"".join(iter(lambda: stream.read(STEP), b""))
    except Exception as error:  # zipfile and the decompressors below it raise a dozen kinds on damaged bytes
        if isinstance(error, NotImplementedError) and entry.compress_type == 93:  # zstd
            raise MissingExtraError(
                f"{file.name}: compressed by zstd: pip install 'custodes[logs]', or take Python 3.14, or write the log"
                " as JSON with: inspect log convert --to json"
            ) from error
        raise InputError(f"{file.name}: {entry.filename} is damaged ({error}); copy the log again") from None


def _add_sample(
    sample: _Sample, item: str, run: _Eval, records: LogRecords, texts: Mapping[str, Counter[str]], lists: Counter[str]
) -> None:
    """Add scores, text and source of one sample; values that are no numbers are counted by their scorer."""
    records.groups.setdefault(item, run.task)
    references = [sample.target] if isinstance(sample.target, str) else sample.target
    records.source(item, _plain(sample.input, sample), references)
    if sample.output and sample.output.choices:
        records.text(item, run.model, _plain(sample.output.choices[0].message.content, sample))
    for scorer, score in (sample.scores or {}).items():
        parts = score.value if isinstance(score.value, dict) else {"": score.value}
        for name, value in parts.items():
            rater = f"{scorer}/{name}" if name else scorer
            numeric = number(value, GRADES)
            if isinstance(value, list | dict):
                lists[rater] += 1
            elif numeric is None and value is not None:
                texts[rater][str(value)[:40]] += 1
            else:
                records.score(item, run.model, rater, numeric, repeat=str(sample.epoch))


def _plain(content: str | list[_Part] | list[_Message], sample: _Sample) -> str:
    """Text as it was sent or said; long texts stand among the attachments of the sample."""
    if isinstance(content, str):
        return sample.attachments.get(content.removeprefix("attachment://"), content)
    texts = (_plain(part.text if isinstance(part, _Part) else part.content, sample) for part in content)
    return "\n".join(text for text in texts if text)


READER = log_reader(
    "inspect_ai",
    what=WHAT,
    patterns=[f"{depth}{suffix}" for depth in ("*", "*/*") for suffix in (SUFFIX, ".json")],
    contents="no .eval file, and no .json of such a log",
    is_log=_is_log,
    make=read_inspect_ai,
)
