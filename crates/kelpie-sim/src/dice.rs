//! What is random in the landscape, the same for the same seed.

use std::fmt::Write;

/// The letters of a generated name: no vowels, so that no word comes about.
const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// How many of them there are at the end of a generated name.
const SUFFIX: usize = 5;

/// Makes uids and names.
#[derive(Debug)]
pub(crate) struct Dice(fastrand::Rng);

/// An object's uid. Bytes rather than a number: they fit anywhere without a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Uid([u8; 16]);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(fastrand::Rng::with_seed(seed))
    }

    pub(crate) fn uid(&mut self) -> Uid {
        const VERSION: u128 = 0xf000 << 64;
        const VARIANT: u128 = 0xc000 << 48;
        let random = self.0.u128(..) & !VERSION & !VARIANT;
        let uid = random | (0x4000 << 64) | (0x8000 << 48);
        Uid(uid.to_be_bytes())
    }

    /// `prefix` with a few letters after it.
    pub(crate) fn name(&mut self, prefix: &str) -> String {
        let letter = |_| char::from(*self.0.choice(LETTERS).unwrap_or(&b'x'));
        let mut name = prefix.to_owned();
        name.extend((0..SUFFIX).map(letter));
        name
    }
}

impl Uid {
    /// The uid that is written so; nothing if it is written in another way.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let digits: String = text.chars().filter(|c| *c != '-').collect();
        let uid = u128::from_str_radix(&digits, 16).ok()?;
        let uid = Self(uid.to_be_bytes());
        (uid.written() == text).then_some(uid)
    }

    pub(crate) fn written(self) -> String {
        let digits = format!("{:032x}", u128::from_be_bytes(self.0));
        let mut text = String::with_capacity(36);
        for (index, digit) in digits.chars().enumerate() {
            let dash = if [8, 12, 16, 20].contains(&index) {
                "-"
            } else {
                ""
            };
            // Writing to a string does not fail.
            let _ = write!(text, "{dash}{digit}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_uids_and_names() {
        let (mut one, mut two) = (Dice::new(7), Dice::new(7));
        assert_eq!(one.uid(), two.uid());
        assert_eq!(one.name("pod-"), two.name("pod-"));
        assert_ne!(one.name("pod-"), one.name("pod-"));
    }

    #[test]
    fn a_uid_is_a_random_one_and_reads_back() {
        let written = Dice::new(1).uid().written();
        assert_eq!(written.len(), 36);
        assert_eq!(&written[14..15], "4");
        assert!("89ab".contains(&written[19..20]), "{written}");
        assert_eq!(Uid::parse(&written).unwrap().written(), written);
        assert_eq!(Uid::parse("abc"), None);
        assert_eq!(Uid::parse(&written.replace('-', "")), None);
    }
}
