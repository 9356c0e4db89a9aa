"""The language server: what an editor asks about `.space` files while somebody types.

    texts --analysis--> Analysis --hover, completion, rename, outline--> plain values --server--> the protocol

Only `server.py` knows the protocol (pygls, the extra `lsp`). Nothing here knows of instances or search.
"""
