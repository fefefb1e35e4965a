"""`cu.judge` with functions as clients: verdicts and ratings from texts."""

from __future__ import annotations

from collections.abc import Mapping
from math import log
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import custodes as cu
from custodes.judging.judge import Judge
from custodes.judging.run import judge
from tests.judging.clients import completion, judging, longer, outputs_of, prompt_of
from tests.judging.servers import Server, says

TEXTS = pl.DataFrame(
    {
        "item": ["1", "1", "1", "2", "2", "2"],
        "system": ["X", "Y", "Z"] * 2,
        "text": ["a", "bb", "ccc", "dddd", "ee", "ee"],
    }
)
ONE = Judge(model="m")


def test_a_judge_that_prefers_length_is_read_in_both_orders() -> None:
    bodies = []

    def client(body: Mapping[str, Any]) -> dict[str, Any]:
        bodies.append(outputs_of(body))
        return judging(longer)(body)

    result = judge(TEXTS, ONE, client=client)
    pairs = {("1", "X", "Y"): -1, ("1", "X", "Z"): -1, ("1", "Y", "Z"): -1, ("2", "X", "Y"): 1, ("2", "X", "Z"): 1}
    rows = [(*pair, order, preference) for pair, preference in pairs.items() for order in ("ab", "ba")]
    assert result.verdicts.select("item", "system_a", "system_b", "order", "preference").rows() == [
        *rows,
        ("2", "Y", "Z", "", 0),
    ]
    assert len(bodies) == 8  # 12 less the 2 of equal texts, less the 2 of X and Z with the texts of X and Y
    assert result.usage.select("questions", "asked").row(0) == (10, 8)
    assert ["dddd", "ee"] in bodies
    study = result.study()
    assert (study.metrics, study.preferences.frame.height, result.status) == (("m",), 11, 0)
    assert study.outputs is not None
    assert [note.rule for note in result.notes] == ["identical-outputs"]


def test_scores_by_aspect_and_repeat() -> None:
    scorer = Judge(model="m", name="scorer", mode="pointwise", aspects=("clarity", "length: how long it is"))
    result = judge(TEXTS, scorer, repeats=2, client=judging(lambda text: min(5, len(text)), "score"))
    assert result.ratings.height == 6 * 2 * 2
    assert result.ratings.row(0) == ("1", "X", "scorer", "metric", "clarity", "0", 1.0, "")
    study = result.study()
    assert study.raters.bounds == {"scorer": (1.0, 5.0)}
    assert study.ratings.frame["aspect"].unique().sort().to_list() == ["clarity", "length"]


def test_an_async_client_inside_a_running_loop() -> None:
    import asyncio

    async def client(body: Mapping[str, Any]) -> Mapping[str, Any]:
        await asyncio.sleep(0)
        return judging(longer)(body)

    async def notebook() -> Any:
        return judge(TEXTS, ONE, client=client)

    assert asyncio.run(notebook()).verdicts["preference"].null_count() == 0


def test_a_second_request_where_the_first_had_no_verdict(tmp_path: Path) -> None:
    counts: dict[str, int] = {}

    def client(body: Mapping[str, Any]) -> dict[str, Any]:
        counts[prompt_of(body)] = counts.get(prompt_of(body), 0) + 1
        return completion("I wonder.") if counts[prompt_of(body)] == 1 else judging(longer)(body)

    client.address = "wonders"  # type: ignore[attr-defined]
    result = judge(TEXTS, ONE, client=client, cache=tmp_path / "c.db")
    assert result.verdicts["preference"].null_count() == 0
    assert result.usage["asked"].item() == 16
    assert result.usage["tokens_in"].item() == 1600  # the first replies were paid too
    again = judge(TEXTS, ONE, client=client, cache=tmp_path / "c.db")
    assert again.usage["asked"].item() == 0
    assert again.verdicts.equals(result.verdicts)


@pytest.mark.parametrize(
    ("reply", "why", "limits"),
    [
        (completion(None, finish="content_filter"), "filtered", [50]),
        (completion('{"verdict": "A"}', finish="length"), "truncated", [50, 100]),
        (completion(""), "empty", [50, 50]),
        (completion('{"verdict": "C"}'), "label", [50, 50]),
    ],
)
def test_a_reply_without_a_verdict_has_a_reason(reply: dict[str, Any], why: str, limits: list[int]) -> None:
    seen: list[int] = []

    def client(body: Mapping[str, Any]) -> dict[str, Any]:
        seen.append(body["max_tokens"])
        return reply

    result = judge(TEXTS.head(2), Judge(model="m", sampling={"max_tokens": 50}), client=client, orders="ab")
    assert result.verdicts.select("preference", "invalid").rows() == [(None, why)]
    assert result.failures.rows() == [(system, 1, 0, why, 1) for system in ("", "X", "Y")]
    assert (seen, result.status) == (limits, 1)


def by_length(body: Mapping[str, Any]) -> dict[str, Any]:
    return judging(longer)(body)


def test_names_and_the_order_of_files_change_no_request(tmp_path: Path) -> None:
    result = judge(TEXTS, ONE, client=by_length, cache=tmp_path / "c.db", orders="random")
    assert result.usage["asked"].item() > 0
    renamed = TEXTS.with_columns(pl.col("system").replace({"X": "Q", "Z": "A"})).reverse()
    again = judge(renamed, ONE, client=by_length, cache=tmp_path / "c.db", orders="random")
    assert again.usage["asked"].item() == 0


def test_a_replay_asks_nothing_else(server: Server, quick: None) -> None:
    server.answer = lambda request, attempts: says('{"verdict": "A"}')
    result = judge(TEXTS, Judge(model="m", base_url=server.url), orders="random")
    bodies = {repr(request.body) for request in server.seen}
    again = result.provenance.replay(TEXTS)
    assert again.verdicts.equals(result.verdicts)
    assert {repr(request.body) for request in server.seen} == bodies


def with_probabilities(
    reply: dict[str, Any], tokens: list[str], place: int, top: Mapping[str, float]
) -> dict[str, Any]:
    """Return a reply with the probabilities of one of its tokens."""
    entries: list[dict[str, Any]] = [{"token": token, "logprob": 0.0} for token in tokens]
    entries[place]["top_logprobs"] = [{"token": label, "logprob": log(chance)} for label, chance in top.items()]
    reply["choices"][0]["logprobs"] = {"content": entries}
    return reply


def test_probabilities_of_a_pair_are_of_the_systems_and_not_of_the_places() -> None:
    def client(body: Mapping[str, Any]) -> dict[str, Any]:
        is_first = "ccc" in outputs_of(body)[0]
        top = {"A": 0.5, "B": 0.3, "tie": 0.2} if is_first else {"A": 0.1, "B": 0.7, "tie": 0.2}
        label = "A" if is_first else "B"
        return with_probabilities(completion(label), [label], 0, top)

    result = judge(TEXTS, Judge(model="m", logprobs=True), client=client, pairs="vs:Z")
    rows = result.verdicts.filter(item="1", system_a="X").select("order", "preference", "p_a", "p_tie", "p_b").rows()
    assert rows == [("ab", -1, *map(pytest.approx, (0.1, 0.2, 0.7))), ("ba", -1, *map(pytest.approx, (0.3, 0.2, 0.5)))]


def test_expected_scores_are_a_rater_of_their_own() -> None:
    def client(body: Mapping[str, Any]) -> dict[str, Any]:
        top = {str(n): 0.2 for n in range(1, 6)}
        return with_probabilities(completion('{"score":4}'), ['{"', "score", '":', "4", "}"], 3, top)

    result = judge(TEXTS, Judge(model="m", mode="pointwise", logprobs=True), client=client)
    means = dict(result.ratings.group_by("rater").agg(pl.col("score").mean()).iter_rows())
    assert means == {"m": 4.0, "m@expected": pytest.approx(3.0)}
    assert result.study().metrics == ("m", "m@expected")


def test_images_are_sent_with_their_item(tmp_path: Path) -> None:
    (tmp_path / "cat.png").write_bytes(b"\x89PNG not really")
    (tmp_path / "texts.jsonl").write_text(
        '{"item": "1", "images": ["cat.png"], "outputs": {"X": "A cat.", "Y": "A dog, I think."}}\n'
        '{"item": "2", "images": ["https://example.org/b.jpg"], "outputs": {"X": "A bird.", "Y": "Birds in a tree."}}\n'
    )
    bodies = []

    def client(body: Mapping[str, Any]) -> dict[str, Any]:
        bodies.append(body["messages"][0]["content"])
        return judging(longer)(body)

    config = Judge(model="m", prompt="caption")
    judge(str(tmp_path / "texts.jsonl"), config, client=client, orders="ab", concurrency=1)
    addresses = {parts[0]["image_url"]["url"] for parts in bodies}
    assert addresses == {"data:image/png;base64,iVBORyBub3QgcmVhbGx5", "https://example.org/b.jpg"}
    (tmp_path / "cat.png").unlink()
    with pytest.raises(cu.InputError, match="no such file"):
        judge(str(tmp_path / "texts.jsonl"), config, client=client)
    assert len(bodies) == 2


def test_a_study_keeps_what_was_there_before_and_what_was_told() -> None:
    human_ratings = pl.DataFrame(
        {"item": ["1", "1"], "system": ["X", "Y"], "rater": ["ann"] * 2, "kind": "human", "score": [1, 2]}
    )
    result = judge(cu.read(TEXTS, human_ratings), ONE, client=judging(longer))
    study = result.study()
    assert (study.humans, study.metrics) == (("ann",), ("m",))
    assert "identical-outputs" in {note.rule for note in study.notes}
    assert result.preferences.frame.height == 11


def test_a_comparison_that_the_budget_stopped_between_its_orders_is_half_one() -> None:
    config = Judge(model="m", sampling={"max_tokens": 100})
    halves = []
    for limit in (0.001, 0.0015, 0.002):
        result = judge(TEXTS, config, client=judging(longer), price=(1.0, 1.0), max_cost=limit, concurrency=1)
        stopped = result.verdicts.filter(invalid="budget")
        assert result.preferences.half_comparisons().height == stopped.height
        halves.append(stopped.height)
    assert halves == [0, 2, 0]  # two questions share one request


def test_what_was_not_asked_is_no_behaviour_of_a_judge() -> None:
    """The judge always prefers the first output, twice; two systems have equal texts on two of three items."""
    texts = pl.DataFrame(
        [
            {"item": str(item), "system": system, "text": f"{item} {'W' if system == 'X' and item % 3 else system}" * k}
            for item in range(30)
            for k, system in ((2, "W"), (2, "X"), (3, "Y"), (4, "Z"))
        ]
    )
    result = judge(texts, ONE, client=judging(lambda a, b: "A"), repeats=2)
    study = result.study()
    answer = cu.consistency(study, resamples=0)
    row = answer.to_frame("orders").row(0, named=True)
    assert (row["n_both_orders"], row["flip_rate"], row["first_rate"]) == (160, 1.0, 1.0)
    assert answer.to_frame("missing").filter(factor="all")["queried"].item() == 160 * 4
    assert answer.to_frame("repeats")["comparisons"].item() == 160
    assert answer.to_frame("length")["comparisons"].item() == 160
    assert [note.message for note in answer.notes if note.rule == "not-asked"] == [
        "20 comparisons of identical outputs are excluded, because the judge was not queried about these comparisons"
    ]
    settled, _ = study.preferences.merge_verdicts("mean")
    assert settled.height == 180  # the ties of equal texts count as preferences
    assert result.failures.is_empty()
    assert result.usage["questions"].item() == 640
