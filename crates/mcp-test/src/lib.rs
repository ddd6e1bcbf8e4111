//! Test kit for the Model Context Protocol: transcripts, scripted peers, in-memory connections.
