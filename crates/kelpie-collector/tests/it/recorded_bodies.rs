//! Responses of real servers, and the corpus of the fuzzer.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kelpie_collector::{Batch, TransformRules};

use crate::fixture::run_chunks;

/// The time at which the corpus was recorded.
const RECORDED: i64 = 1_794_811_500_000;

fn files(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let files = fs::read_dir(&folder).unwrap();
    let mut files: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
fn recorded_samples_are_all_parsed() {
    let mut samples = 0;
    for file in files("tests/corpus") {
        let body = fs::read_to_string(&file).unwrap();
        let lines = body.lines().filter(|line| !line.starts_with('#')).count();
        let outcome = run_chunks(
            TransformRules::new(),
            &Arc::default(),
            RECORDED,
            &[body.as_bytes()],
        );
        assert_eq!(outcome.result, Ok(()), "{}", file.display());
        assert_eq!(outcome.sent().len(), lines, "{}", file.display());
        samples += lines;
    }
    assert!(samples > 800, "{samples}");
}

/// Checks for the corpus what the fuzz target checks for its mutations.
#[test]
fn chunk_boundaries_do_not_matter() {
    let all = [files("../../fuzz/corpus/federate"), files("tests/corpus")].concat();
    assert!(all.len() > 10, "{all:?}");
    for file in all {
        let body = fs::read(&file).unwrap();
        let whole = run_chunks(TransformRules::new(), &Arc::default(), RECORDED, &[&body]);
        for size in [1, 7, 4096] {
            let chunks: Vec<&[u8]> = body.chunks(size).collect();
            let cut = run_chunks(TransformRules::new(), &Arc::default(), RECORDED, &chunks);
            assert_eq!(cut.result, whole.result, "{}", file.display());
            assert_eq!(cut.counts, whole.counts, "{}", file.display());
            assert_eq!(cut.sent(), whole.sent(), "{}", file.display());
        }
        let samples = whole.batches.iter().map(Batch::len).sum::<usize>() as u64;
        assert_eq!(samples, whole.counts.sent);
    }
}
