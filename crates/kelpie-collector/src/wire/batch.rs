//! An encoded batch of samples.

use bytes::Bytes;
use snap::raw::{Decoder, Encoder};

use super::batch_builder::compress;
use super::decoded_sample::{self, DecodedSample};

/// An encoded batch of samples. It keeps the keys of its samples to acknowledge or split them.
#[derive(Clone, Debug)]
pub struct Batch {
    encoded: Bytes,
    keys: Box<[SampleKey]>,
}

/// The identity of a sample in a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SampleKey {
    pub(super) hash: u64,
    pub(super) timestamp_ms: i64,
    /// The end of its series in the uncompressed request.
    pub(super) end: u32,
}

impl Batch {
    pub(super) fn pack(
        request: &[u8],
        keys: Box<[SampleKey]>,
        scratch: &mut Vec<u8>,
        encoder: &mut Encoder,
    ) -> Self {
        let encoded = Bytes::copy_from_slice(compress(request, scratch, encoder));
        Self { encoded, keys }
    }

    /// Returns the number of samples.
    #[expect(clippy::len_without_is_empty, reason = "there are no empty batches")]
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Returns the body of the request: a `WriteRequest` in snappy's block format.
    pub fn encoded(&self) -> Bytes {
        self.encoded.clone()
    }

    /// Returns the memory of the batch in bytes.
    pub fn bytes(&self) -> usize {
        self.encoded.len() + size_of_val(&*self.keys)
    }

    /// Returns the hash and timestamp of every sample, for [`crate::DedupTable`].
    pub fn sample_keys(&self) -> impl Iterator<Item = (u64, i64)> {
        self.keys.iter().map(|key| (key.hash, key.timestamp_ms))
    }

    /// Splits the batch into halves, to find the samples that a hub refuses. Returns `None` if
    /// there is only one sample.
    pub fn halves(&self) -> Option<(Self, Self)> {
        let middle = self.len() / 2;
        let (head, tail) = self.keys.split_at(middle);
        let cut = head.last()?.end;
        let request = self.request()?;
        let (before, after) = request.split_at_checked(cut as usize)?;
        let shift = |key: &SampleKey| SampleKey {
            end: key.end - cut,
            ..*key
        };
        let (mut scratch, mut encoder) = (Vec::new(), Encoder::new());
        let mut pack = |request, keys| Self::pack(request, keys, &mut scratch, &mut encoder);
        Some((
            pack(before, head.into()),
            pack(after, tail.iter().map(shift).collect()),
        ))
    }

    /// Decodes the samples as the hub reads them, for a dry run.
    pub fn samples(&self) -> Vec<DecodedSample> {
        let request = self.request().unwrap_or_default();
        decoded_sample::decode(&request).unwrap_or_default()
    }

    /// Decompresses the request. This cannot fail for data that [`Batch::pack`] compressed.
    fn request(&self) -> Option<Vec<u8>> {
        Decoder::new().decompress_vec(&self.encoded).ok()
    }
}
