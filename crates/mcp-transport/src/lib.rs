//! Transports of the Model Context Protocol: the traits, an in-memory pair, newline-delimited JSON, stdio, SSE.
