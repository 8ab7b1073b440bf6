//! The decisions of causeway: pure, deterministic, without I/O
