//! A batch of samples, ready to be sent.

use bytes::Bytes;
use snap::raw::{Decoder, Encoder};

use super::draft::compress;
use super::sample::{self, Sample};

/// A batch of samples, ready to be sent, with what is needed when the answer comes.
#[derive(Clone, Debug)]
pub struct Batch {
    encoded: Bytes,
    marks: Box<[Mark]>,
}

/// What is kept of a sample.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    pub(super) hash: u64,
    pub(super) timestamp_ms: i64,
    /// Where its series ends in the request before compression.
    pub(super) end: u32,
}

impl Batch {
    pub(super) fn pack(
        request: &[u8],
        marks: Box<[Mark]>,
        scratch: &mut Vec<u8>,
        encoder: &mut Encoder,
    ) -> Self {
        let encoded = Bytes::copy_from_slice(compress(request, scratch, encoder));
        Self { encoded, marks }
    }

    /// Samples in it.
    #[expect(clippy::len_without_is_empty, reason = "there are no empty batches")]
    pub fn len(&self) -> usize {
        self.marks.len()
    }

    /// The body of the request: a `WriteRequest` in snappy's block format.
    pub fn encoded(&self) -> Bytes {
        self.encoded.clone()
    }

    /// Memory that it holds.
    pub fn bytes(&self) -> usize {
        self.encoded.len() + size_of_val(&*self.marks)
    }

    /// Hash and timestamp of every sample, for [`crate::Seen`].
    pub fn marks(&self) -> impl Iterator<Item = (u64, i64)> {
        self.marks.iter().map(|mark| (mark.hash, mark.timestamp_ms))
    }

    /// Its two halves, to find what a hub refuses; nothing if there is only one sample.
    pub fn halves(&self) -> Option<(Self, Self)> {
        let middle = self.len() / 2;
        let (head, tail) = self.marks.split_at(middle);
        let cut = head.last()?.end;
        let request = self.request()?;
        let (before, after) = request.split_at_checked(cut as usize)?;
        let shifted = |mark: &Mark| Mark {
            end: mark.end - cut,
            ..*mark
        };
        let (mut scratch, mut encoder) = (Vec::new(), Encoder::new());
        let mut pack = |request, marks| Self::pack(request, marks, &mut scratch, &mut encoder);
        Some((
            pack(before, head.into()),
            pack(after, tail.iter().map(shifted).collect()),
        ))
    }

    /// What is in it, as the hub will read it: for a dry run.
    pub fn samples(&self) -> Vec<Sample> {
        let request = self.request().unwrap_or_default();
        sample::decode(&request).unwrap_or_default()
    }

    /// We have compressed it ourselves: it can be read.
    fn request(&self) -> Option<Vec<u8>> {
        Decoder::new().decompress_vec(&self.encoded).ok()
    }
}
