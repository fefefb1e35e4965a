"""Save small models with random weights in the format of their libraries: `python random_models.py KIND FOLDER`.

The script runs in the libraries' environments, without custodes.
"""

import sys
from pathlib import Path

KIND, FOLDER = sys.argv[1], Path(sys.argv[2])
WORDS = "a man rides his bicycle down the street while it rains and sings of the sea in a photo that depicts two dogs"


def tokenizer(longest, **more):
    """Byte-pair tokenizer, which has no unknown text."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    result = Tokenizer(models.BPE())
    result.pre_tokenizer = pre_tokenizers.ByteLevel()
    result.decoder = decoders.ByteLevel()
    special = ["<pad>", "<s>", "<unk>", "</s>"]  # CLIP with end token 2 uses the token with the highest number
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    result.train_from_iterator(
        [WORDS] * 9, trainers.BpeTrainer(vocab_size=320, special_tokens=special, initial_alphabet=alphabet)
    )
    result.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> $B </s>", special_tokens=[("<s>", 1), ("</s>", 3)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=result, pad_token="<pad>", bos_token="<s>", eos_token="</s>", model_max_length=longest, **more
    )


def clip():
    import torch
    from transformers import CLIPConfig, CLIPImageProcessor, CLIPModel

    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    text = {**sizes, "vocab_size": 320, "max_position_embeddings": 77, "eos_token_id": 3, "bos_token_id": 1}
    config = CLIPConfig(text_config=text, vision_config={**sizes, "image_size": 32, "patch_size": 8}, projection_dim=16)
    model = CLIPModel(config).eval()
    output = model(torch.tensor([[1, 9, 8, 3]]), torch.full((1, 3, 32, 32), 0.5))
    if output.image_embeds[0] @ output.text_embeds[0] < 0:  # positive scores
        model.text_projection.weight.data *= -1
    model.save_pretrained(FOLDER)
    size = {"shortest_edge": 32}
    CLIPImageProcessor(size=size, crop_size={"height": 32, "width": 32}).save_pretrained(FOLDER)
    tokenizer(77).save_pretrained(FOLDER)


def reward(template=None, pad=True):
    """Sequence classifier on a decoder, like most reward models."""
    from transformers import LlamaConfig, LlamaForSequenceClassification

    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = LlamaConfig(
        vocab_size=320, max_position_embeddings=128, num_labels=1, pad_token_id=0 if pad else None, **sizes
    )
    LlamaForSequenceClassification(config).save_pretrained(FOLDER)
    byte_pairs = tokenizer(128)
    byte_pairs.chat_template = template
    if not pad:
        byte_pairs.pad_token = None
    byte_pairs.save_pretrained(FOLDER)


def chat():
    reward("{% for m in messages %}{{ bos_token }}{{ m.role }}: {{ m.content }}{{ eos_token }}{% endfor %}", pad=False)


def labels():
    from transformers import BertConfig, BertForSequenceClassification

    config = BertConfig(
        vocab_size=320, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=1
    )
    BertForSequenceClassification(config).save_pretrained(FOLDER)  # two labels
    tokenizer(128).save_pretrained(FOLDER)


def mt5():
    import torch
    from transformers import MT5Config, MT5ForConditionalGeneration

    sizes = {"d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 2, "num_heads": 2}
    model = MT5ForConditionalGeneration(MT5Config(vocab_size=250112, decoder_start_token_id=0, **sizes)).eval()
    byte_pairs = tokenizer(1536)
    ids = torch.tensor([byte_pairs(WORDS)["input_ids"][:-1]])
    logit = model(input_ids=ids, decoder_input_ids=torch.tensor([[0]])).logits[0, 0, 250089]
    model.lm_head.weight.data[250089] *= 10 / logit.item()  # no score is clipped at 0 or 25
    model.save_pretrained(FOLDER)
    byte_pairs.save_pretrained(FOLDER)


def comet(kind="regression_metric"):
    """Checkpoint of Lightning for `load_from_checkpoint`."""
    import pytorch_lightning
    import torch
    import yaml
    from comet.models import str2model
    from transformers import BertConfig, BertModel, BertTokenizerFast

    encoder = FOLDER / "encoder"
    encoder.mkdir(parents=True)
    letters = [chr(number) for number in range(33, 127)]
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *("##" + letter for letter in letters)]
    (encoder / "vocab.txt").write_text("\n".join(vocabulary), encoding="utf-8")
    BertTokenizerFast(str(encoder / "vocab.txt"), model_max_length=64).save_pretrained(encoder)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = BertConfig(vocab_size=len(vocabulary), max_position_embeddings=64, **sizes)
    BertModel(config).save_pretrained(encoder)
    more = {"hidden_sizes": [16], "encoder_model": "BERT", "pretrained_model": str(encoder), "local_files_only": True}
    model = str2model[kind](**more)
    (FOLDER / "checkpoints").mkdir()
    hyper = dict(model.hparams)
    whole = {"state_dict": model.state_dict(), "hyper_parameters": hyper}
    version = pytorch_lightning.__version__
    torch.save({**whole, "pytorch-lightning_version": version}, FOLDER / "checkpoints" / "model.ckpt")
    (FOLDER / "hparams.yaml").write_text(yaml.dump({**hyper, "class_identifier": kind}), encoding="utf-8")


def unified():
    """Model like xCOMET, with a source, a reference, or both as input."""
    comet("unified_metric")


def kiwi():
    comet("referenceless_regression_metric")


__import__("torch").manual_seed(0)
globals()[KIND]()
