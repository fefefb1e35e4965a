"""Encoders: token embeddings by onnxruntime or transformers, shared by BERTScore and cosine similarities."""
