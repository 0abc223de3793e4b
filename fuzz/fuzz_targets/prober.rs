//! Parses arbitrary bytes as the prober's configuration file, in both modes.
#![no_main]

use kelpie_config::{Strictness, prober};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    for strictness in [Strictness::Strict, Strictness::Lenient] {
        if let Err(error) = prober::parse(bytes, strictness) {
            assert!(!error.problems.is_empty());
            let _ = error.to_string();
        }
    }
});
