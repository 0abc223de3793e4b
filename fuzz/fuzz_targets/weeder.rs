//! Any bytes as the weeder's file, in both dialects.
#![no_main]

use kelpie_config::{Strictness, weeder};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    for strictness in [Strictness::Strict, Strictness::Lenient] {
        if let Err(report) = weeder::parse(bytes, strictness) {
            assert!(!report.problems.is_empty());
            let _ = report.to_string();
        }
    }
});
