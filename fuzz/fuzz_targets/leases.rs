//! Decodes arbitrary bytes as a list of leases in both encodings, as a whole and in chunks.
#![no_main]

use kelpie_kube::lists::{Decoder, LeaseList, ListError};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    for content in ["application/vnd.kubernetes.protobuf", "application/json"] {
        let whole = decoded(content, bytes, bytes.len());
        assert_eq!(whole.is_ok(), decoded(content, bytes, 7).is_ok());
    }
});

fn decoded(content: &str, bytes: &[u8], chunk: usize) -> Result<LeaseList, ListError> {
    let mut decoder = Decoder::new(LeaseList::default(), Some(content))?;
    for chunk in bytes.chunks(chunk.max(1)) {
        decoder.push(chunk)?;
    }
    let list: LeaseList = decoder.finish()?;
    assert_eq!(list.iter().count(), list.len());
    Ok(list)
}
