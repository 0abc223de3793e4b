//! The prober: a shell round the decisions of kelpie-core.
