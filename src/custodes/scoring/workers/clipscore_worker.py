# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.44", "pillow"]
# ///
"""CLIPScore of captions (Hessel et al. 2021), or RefCLIPScore with --references; each row has the path of one image."""

from worker_protocol import DEVICE, parse_options, serve  # imported first, to keep output of libraries out of answers

import torch
import transformers
from PIL import Image

options = parse_options(
    __doc__,
    model={"default": "openai/clip-vit-base-patch32", "help": "a name on the hub, or a folder"},
    prefix={"default": "A photo depicts ", "help": "prefix of every caption, as in the paper"},
    references={
        "action": "store_true",
        "help": "RefCLIPScore: harmonic mean of CLIPScore and the similarity to the most similar reference",
    },
)

model = transformers.CLIPModel.from_pretrained(options.model).eval().to(DEVICE)
tokenizer = transformers.AutoTokenizer.from_pretrained(options.model)
pixels = transformers.AutoImageProcessor.from_pretrained(options.model, use_fast=False)
longest, seen = model.config.text_config.max_position_embeddings, {}


def normalise_vectors(vectors):  # transformers 5 returns an object
    return torch.nn.functional.normalize(getattr(vectors, "pooler_output", vectors), dim=-1).cpu()


def embed_images(rows):
    """Compute the embeddings of new images, and return the reason for each row without a readable image.

    Embeddings are kept, because the rows of other systems have the same images.
    """
    new_image_of_path, image_error_of_row = {}, []
    for row in rows:
        try:
            (image_path,) = row["images"]
            if image_path not in seen:
                new_image_of_path[image_path] = Image.open(image_path).convert("RGB")
            image_error_of_row.append(None)
        except Exception as problem:  # a file can have any defect
            image_error_of_row.append(
                f"image: {problem}" if len(row["images"]) == 1 else f"{len(row['images'])} images, not 1"
            )
    if new_image_of_path:
        image_tensors = pixels(list(new_image_of_path.values()), return_tensors="pt").to(DEVICE)
        seen.update(zip(new_image_of_path, normalise_vectors(model.get_image_features(**image_tensors)), strict=True))
    return image_error_of_row


@torch.inference_mode()
def score(rows):
    scores, image_error_of_row = [], embed_images(rows)
    texts_of_rows = [[options.prefix + text for text in (row["output"], *row.get("references", []))] for row in rows]
    all_texts = [text for row_texts in texts_of_rows for text in row_texts]
    tokens = tokenizer(all_texts, padding=True, truncation=True, max_length=longest, return_tensors="pt").to(DEVICE)
    text_embeddings_of_rows = normalise_vectors(model.get_text_features(**tokens)).split(
        [len(row_texts) for row_texts in texts_of_rows]
    )
    for row, row_embeddings, image_error in zip(rows, text_embeddings_of_rows, image_error_of_row, strict=True):
        clip_score = None if image_error else 2.5 * max(0.0, (row_embeddings[0] @ seen[row["images"][0]]).item())
        if clip_score and options.references:
            reference_similarity = max(0.0, (row_embeddings[1:] @ row_embeddings[0]).max().item())
            clip_score = 2 * clip_score * reference_similarity / (clip_score + reference_similarity)
        scores.append(clip_score)
    is_truncated = [
        any(len(token_ids) > longest for token_ids in tokenizer(row_texts)["input_ids"]) for row_texts in texts_of_rows
    ]
    return {"scores": scores, "why": image_error_of_row, "truncated": is_truncated}


version = f"transformers {transformers.__version__} {type(pixels).__name__}"
needs = ["image", "references"] if options.references else ["image"]
serve(score, metric="clipscore", version=version, needs=needs, low=0, high=1.0 if options.references else 2.5)
