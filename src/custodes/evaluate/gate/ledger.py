"""Ledger of a gate: a file of JSON lines with the human labels and the candidates of each generation.

A generation is a set of human labels on which candidates are tested one after another. Lines are only appended. Each
entry contains the digests of the entries before it, so a changed or removed entry is detected. To merge two branches,
keep the lines of both branches.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import msgspec

from custodes.errors import InputError, OptionError, join_labels, reject, short_repr
from custodes.strict_json import decode, digest, prepare_decoder

LENGTH = 16
"""Hexadecimal digits of a digest."""


class LabelEntry(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Human labels of a generation: its first labels if `starts` is true, otherwise labels that are added later.

    `labels` maps each output to the digest of its label; an output is the digests of its item and of its system.
    `level` is the level of the generation.
    """

    starts: bool
    level: float
    labels: dict[str, str]


class Candidate(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """A candidate and its outcome, with the results, critical values and spent levels of all tests.

    `fingerprint` is a digest of rules and results. `path` has the digests of the earlier candidates that opened
    the gate. `results` (tests, units) is the influence of each unit on the statistic of each test.
    """

    metric: str
    rules: tuple[str, ...]
    fingerprint: str
    path: tuple[str, ...]
    units: tuple[str, ...]
    results: tuple[tuple[float, ...], ...]
    critical: tuple[float, ...]
    spent: tuple[float, ...]
    outcome: str
    reason: str


class Entry(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A line of the file: labels or a candidate of a generation. `parents` are the entries before this entry."""

    format: str
    generation: str
    parents: tuple[str, ...]
    labels: LabelEntry | None = None
    candidate: Candidate | None = None
    digest: str = ""

    @property
    def signature(self) -> str:
        """The digest of the entry, computed from its content."""
        return digest(msgspec.structs.replace(self, digest=""))[:LENGTH]


FORMAT = "custodes-gate-ledger-2"
_ENTRY = msgspec.json.Decoder(prepare_decoder(Entry))


@dataclass(frozen=True)
class Ledger:
    """The distinct entries of a ledger, in the order of the file."""

    entries: tuple[Entry, ...] = ()

    @classmethod
    def read(cls, content: bytes, file_name: str) -> Ledger:
        """Return the ledger in a file. Raise InputError if an entry was edited or removed."""
        entry_of_digest = dict[str, Entry]()
        for line_number, line in enumerate(content.splitlines(), start=1):
            try:
                entry = decode(line, _ENTRY)
            except InputError as problem:
                raise InputError(
                    f"{file_name}, line {line_number}: {problem}; restore the line (after a merge, keep the lines of "
                    "both branches)"
                ) from None
            reject(
                (
                    entry.format != FORMAT,
                    f"{file_name}, line {line_number}: the format is {short_repr(entry.format)}; this version reads "
                    f"only {FORMAT!r}",
                ),
                (
                    entry.signature != entry.digest,
                    f"{file_name}, line {line_number}: the entry was edited; restore the file",
                ),
                error=InputError,
            )
            entry_of_digest.setdefault(entry.digest, entry)
        reject(
            *(
                (
                    parent_digest not in entry_of_digest,
                    f"{file_name}: entry {parent_digest} was removed, but entry {entry.digest} refers to it; restore "
                    "the file",
                )
                for entry in entry_of_digest.values()
                for parent_digest in entry.parents
            ),
            error=InputError,
        )
        return cls(tuple(entry_of_digest.values()))

    def append_entry(self, *, generation: str, **content: LabelEntry | Candidate) -> Ledger:
        """Return the ledger with another entry at the end."""
        entry = Entry(format=FORMAT, generation=generation, parents=self.heads, **content)  # type: ignore[arg-type]
        return Ledger((*self.entries, msgspec.structs.replace(entry, digest=entry.signature)))

    @cached_property
    def heads(self) -> tuple[str, ...]:
        """Digests of the entries that no other entry follows. After a merge, several entries have no following
        entry."""
        parent_digests = {parent_digest for entry in self.entries for parent_digest in entry.parents}
        return tuple(sorted(entry.digest for entry in self.entries if entry.digest not in parent_digests))

    @cached_property
    def generation(self) -> str:
        """The latest generation; empty if there is none."""
        return next((entry.generation for entry in reversed(self.entries) if entry.labels and entry.labels.starts), "")

    @cached_property
    def labels(self) -> dict[str, str]:
        """All labels of all generations."""
        return dict(ChainMap(*(entry.labels.labels for entry in reversed(self.entries) if entry.labels)))

    @property
    def n_generations(self) -> int:
        """Number of generations."""
        return sum(bool(entry.labels and entry.labels.starts) for entry in self.entries)

    def with_earlier_names(self, label_of_output: Mapping[str, str]) -> dict[str, str]:
        """Return the labels with the earlier names of renamed systems.

        A system that is new to the ledger counts as renamed under one condition: an earlier system is missing from
        `label_of_output`, and both systems have equal labels on all shared items. Otherwise, renaming a system would
        start a new generation with the same labels. Each earlier name belongs to at most one system, because otherwise
        labels of one system would be lost.
        """
        earlier_labels_of_system, current_labels_of_system = _by_system(self.labels), _by_system(label_of_output)
        earlier_name_of_system = dict[str, str]()
        for system in sorted(current_labels_of_system.keys() - earlier_labels_of_system.keys()):
            free_names = earlier_labels_of_system.keys() - current_labels_of_system.keys()
            current_labels = current_labels_of_system[system]
            n_equal_of_name = {
                earlier_name: len(current_labels.items() & earlier_labels_of_system[earlier_name].items())
                for earlier_name in sorted(free_names - set(earlier_name_of_system.values()))
                if all(
                    earlier_labels_of_system[earlier_name].get(item, label) == label
                    for item, label in current_labels.items()
                )
            }
            if any(n_equal_of_name.values()):
                earlier_name_of_system[system] = max(n_equal_of_name, key=n_equal_of_name.__getitem__)
        return {
            item + earlier_name_of_system.get(system, system): label
            for system, label_of_item in current_labels_of_system.items()
            for item, label in label_of_item.items()
        }

    @cached_property
    def candidates(self) -> dict[str, Candidate]:
        """Candidates of the latest generation, by digest of the entry."""
        return {
            entry.digest: entry.candidate
            for entry in self.entries
            if entry.candidate and entry.generation == self.generation
        }

    def with_labels(
        self,
        label_of_output: Mapping[str, str],
        *,
        name_of_output_digest: Mapping[str, str],
        level: float,
        file_name: str,
    ) -> Ledger:
        """Return the ledger with the current human labels: unchanged, with added labels, or with a new generation.

        Parameters
        ----------
        label_of_output : mapping
            Digest of the label of each labelled output (see `LabelEntry`).
        name_of_output_digest : mapping
            Name of each output by its digest, for messages.
        level : float
            Upper bound for the probability of any false opening in a generation.
        file_name : str
            Name of the file.

        Raises
        ------
        InputError
            If a label differs from the label in the ledger, or if a label of the generation is missing.
        OptionError
            If the level differs from the level of the generation.
        """
        label_of_output = self.with_earlier_names(label_of_output)
        if changed_output_names := [
            name_of_output_digest[output_digest]
            for output_digest, label_digest in label_of_output.items()
            if self.labels.get(output_digest, label_digest) != label_digest
        ]:
            raise InputError(
                f"{file_name}: human labels changed since earlier runs: {join_labels(changed_output_names, limit=3)}; "
                "restore the earlier labels; if these are outputs of another version, name the column with the version "
                "(--column system=COLUMN)"
            )
        new_label_of_output = {
            output_digest: label_digest
            for output_digest, label_digest in label_of_output.items()
            if output_digest not in self.labels
        }
        if not self.generation or 2 * len(new_label_of_output) >= len(label_of_output):
            return self.append_entry(
                generation=digest(sorted(label_of_output.items()))[:LENGTH],
                labels=LabelEntry(starts=True, level=level, labels=dict(label_of_output)),
            )
        label_entries = [entry.labels for entry in self.entries if entry.labels and entry.generation == self.generation]
        if (
            missing_output_digests := {
                output_digest for label_entry in label_entries for output_digest in label_entry.labels
            }
            - label_of_output.keys()
        ):
            raise InputError(
                f"{file_name}: {len(missing_output_digests)} human labels of earlier runs are missing, or their "
                "annotators are tied now; give all labels of the earlier runs (for all systems), or replace at least "
                "half of the labels by new labels"
            )
        if label_entries[0].level != level:
            raise OptionError(
                f"confidence={1 - level:g} differs from the confidence of earlier runs on these labels; use "
                f"confidence={1 - label_entries[0].level:g}"
            )
        if not new_label_of_output:
            return self
        return self.append_entry(
            generation=self.generation, labels=LabelEntry(starts=False, level=level, labels=new_label_of_output)
        )


def _by_system(label_of_output: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Return the label of each item of each system; a key of `label_of_output` has the digests of item and system."""
    labels_of_system = dict[str, dict[str, str]]()
    for output_digest, label_digest in label_of_output.items():
        labels_of_system.setdefault(output_digest[LENGTH:], {})[output_digest[:LENGTH]] = label_digest
    return labels_of_system
