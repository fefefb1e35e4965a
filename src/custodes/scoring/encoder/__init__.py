"""Encoders: token embeddings by onnxruntime or transformers, which BERTScore and cosine similarities share."""
