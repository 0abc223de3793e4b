//! Parses arbitrary bytes as the weeder's configuration file, in both modes.
#![no_main]

use kelpie_config::{Strictness, weeder};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    for strictness in [Strictness::Strict, Strictness::Lenient] {
        if let Err(error) = weeder::parse(bytes, strictness) {
            assert!(!error.problems.is_empty());
            let _ = error.to_string();
        }
    }
});
