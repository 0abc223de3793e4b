//! The corpora of the fuzz targets do not cause panics.

use std::fs;
use std::path::Path;

use kelpie_kube::kubeconfig::TenantConfig;
use kelpie_kube::lists::{Decoder, LeaseList, ListError};

use crate::bodies::{CollectedNodes, JSON, PROTOBUF, TestList};

/// Returns the files of a target's corpus.
fn corpus(target: &str) -> Vec<Vec<u8>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let files = root.join(target).read_dir().unwrap();
    let read = |file: std::io::Result<fs::DirEntry>| fs::read(file.unwrap().path()).unwrap();
    files.map(read).collect()
}

/// Decodes a list in chunks of `size`. Returns its version.
fn decode<L: TestList>(
    content_type: &str,
    bytes: &[u8],
    size: usize,
) -> Result<Option<u64>, ListError> {
    let mut decoder = Decoder::new(L::empty(), Some(content_type))?;
    for chunk in bytes.chunks(size.max(1)) {
        decoder.push(chunk)?;
    }
    let version = decoder.resource_version();
    decoder.finish()?;
    Ok(version)
}

/// Counts the files of a corpus that are valid lists in either encoding.
fn count_lists<L: TestList>(target: &str) -> usize {
    let is_list = |bytes: &Vec<u8>| {
        [PROTOBUF, JSON].into_iter().any(|content_type| {
            let decoded = decode::<L>(content_type, bytes, bytes.len()).ok();
            assert_eq!(decoded, decode::<L>(content_type, bytes, 7).ok());
            decoded.is_some()
        })
    };
    corpus(target).iter().filter(|bytes| is_list(bytes)).count()
}

#[test]
fn chunk_size_does_not_change_the_result() {
    assert!(
        count_lists::<LeaseList>("leases") >= 5,
        "real ones, odd versions"
    );
    assert!(count_lists::<CollectedNodes>("nodes") >= 2, "the real ones");
}

#[test]
fn kubeconfigs_are_refused_with_a_message() {
    let files = corpus("kubeconfig");
    assert!(files.len() >= 9);
    for file in files {
        let error = TenantConfig::from_kubeconfig(&file)
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("the kubeconfig"), "{error}");
    }
}
