//! The corpora of the fuzz targets: none of it ends the program.

use std::fs;
use std::path::Path;

use kelpie_kube::kubeconfig::Access;
use kelpie_kube::wire::{Decoder, LeaseList, List, NodeList, WireError};

use crate::bodies::{JSON, PROTOBUF};

/// The files of a target's corpus.
fn corpus(target: &str) -> Vec<Vec<u8>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let files = root.join(target).read_dir().unwrap();
    let read = |file: std::io::Result<fs::DirEntry>| fs::read(file.unwrap().path()).unwrap();
    files.map(read).collect()
}

fn decoded<L: List>(content: &str, bytes: &[u8], piece: usize) -> Result<L, WireError> {
    let mut decoder = Decoder::new(Some(content))?;
    for piece in bytes.chunks(piece.max(1)) {
        decoder.push(piece)?;
    }
    decoder.finish()
}

/// How many of a corpus are lists in one encoding or the other.
fn lists<L: List>(target: &str) -> usize {
    let is_list = |bytes: &Vec<u8>| {
        [PROTOBUF, JSON].into_iter().any(|content| {
            let whole = decoded::<L>(content, bytes, bytes.len()).is_ok();
            assert_eq!(whole, decoded::<L>(content, bytes, 7).is_ok());
            whole
        })
    };
    corpus(target).iter().filter(|bytes| is_list(bytes)).count()
}

#[test]
fn lists_are_read_or_refused_the_same_whole_and_in_pieces() {
    assert!(lists::<LeaseList>("leases") >= 2, "the real ones");
    assert!(lists::<NodeList>("nodes") >= 2, "the real ones");
}

#[test]
fn kubeconfigs_are_refused_with_words() {
    let files = corpus("kubeconfig");
    assert!(files.len() >= 9);
    for file in files {
        let error = Access::from_kubeconfig(&file).unwrap_err().to_string();
        assert!(error.starts_with("the kubeconfig"), "{error}");
    }
}
