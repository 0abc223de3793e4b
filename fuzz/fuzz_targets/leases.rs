//! Any bytes as a list of leases, in both encodings, whole and in pieces.
#![no_main]

use kelpie_kube::wire::{Decoder, LeaseList, WireError};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    for content in ["application/vnd.kubernetes.protobuf", "application/json"] {
        let whole = decoded(content, bytes, bytes.len());
        assert_eq!(whole.is_ok(), decoded(content, bytes, 7).is_ok());
    }
});

fn decoded(content: &str, bytes: &[u8], piece: usize) -> Result<LeaseList, WireError> {
    let mut decoder = Decoder::new(Some(content))?;
    for piece in bytes.chunks(piece.max(1)) {
        decoder.push(piece)?;
    }
    let list: LeaseList = decoder.finish()?;
    assert_eq!(list.iter().count(), list.len());
    Ok(list)
}
