//! Decodes arbitrary bytes as a list of nodes in both encodings, as a whole and in chunks.
#![no_main]

use kelpie_kube::lists::{Decoder, NodeList, ListError};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    for content in ["application/vnd.kubernetes.protobuf", "application/json"] {
        let whole = decoded(content, bytes, bytes.len()).ok();
        assert_eq!(whole, decoded(content, bytes, 7).ok());
    }
});

/// Returns the list and its version.
fn decoded(
    content: &str,
    bytes: &[u8],
    chunk: usize,
) -> Result<(NodeList, Option<u64>), ListError> {
    let mut decoder = Decoder::<NodeList>::new(NodeList::default(), Some(content))?;
    for chunk in bytes.chunks(chunk.max(1)) {
        decoder.push(chunk)?;
    }
    let version = decoder.resource_version();
    Ok((decoder.finish()?, version))
}
