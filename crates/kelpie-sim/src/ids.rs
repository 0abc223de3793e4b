//! Object UIDs and generated names, reproducible from an RNG seed.

/// The characters of a generated name's suffix. As in Kubernetes there are no vowels, so no words
/// arise by chance.
const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// The length of a generated name's suffix.
const SUFFIX_LENGTH: usize = 5;

/// Generates UIDs and names.
#[derive(Debug)]
pub(crate) struct IdGenerator(fastrand::Rng);

/// An object's UID. Stored as bytes rather than as a `u128`, which would add padding to
/// [`CompactLease`](crate::store::body::CompactLease).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Uid([u8; 16]);

impl IdGenerator {
    pub(crate) fn new(rng_seed: u64) -> Self {
        Self(fastrand::Rng::with_seed(rng_seed))
    }

    pub(crate) fn uid(&mut self) -> Uid {
        const VERSION: u128 = 0xf000 << 64;
        const VARIANT: u128 = 0xc000 << 48;
        let random = self.0.u128(..) & !VERSION & !VARIANT;
        let uid = random | (0x4000 << 64) | (0x8000 << 48);
        Uid(uid.to_be_bytes())
    }

    /// Returns `prefix` followed by a random suffix, as for `generateName`.
    pub(crate) fn name(&mut self, prefix: &str) -> String {
        let letter = |_| char::from(*self.0.choice(LETTERS).unwrap_or(&b'x'));
        let mut name = prefix.to_owned();
        name.extend((0..SUFFIX_LENGTH).map(letter));
        name
    }
}

impl Uid {
    /// Parses a UID in its hyphenated form. Returns `None` for any other spelling, so that a parsed
    /// UID formats to the same text.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let digits: String = text.chars().filter(|c| *c != '-').collect();
        let uid = u128::from_str_radix(&digits, 16).ok()?;
        let uid = Self(uid.to_be_bytes());
        (uid.hyphenated() == text).then_some(uid)
    }

    pub(crate) fn hyphenated(self) -> String {
        let mut text = format!("{:032x}", u128::from_be_bytes(self.0));
        // From the back, so that each dash leaves the places of the others.
        for index in [20, 16, 12, 8] {
            text.insert(index, '-');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_rng_seed_gives_same_ids() {
        let (mut one, mut two) = (IdGenerator::new(7), IdGenerator::new(7));
        assert_eq!(one.uid(), two.uid());
        assert_eq!(one.name("pod-"), two.name("pod-"));
        assert_ne!(one.name("pod-"), one.name("pod-"));
    }

    #[test]
    fn uid_is_version_4_and_round_trips() {
        let hyphenated = IdGenerator::new(1).uid().hyphenated();
        assert_eq!(hyphenated.len(), 36);
        assert_eq!(&hyphenated[14..15], "4");
        assert!("89ab".contains(&hyphenated[19..20]), "{hyphenated}");
        assert_eq!(Uid::parse(&hyphenated).unwrap().hyphenated(), hyphenated);
        assert_eq!(Uid::parse("abc"), None);
        assert_eq!(Uid::parse(&hyphenated.replace('-', "")), None);
    }
}
