//! Wire types of every revision of the Model Context Protocol: no I/O, no runtime.
