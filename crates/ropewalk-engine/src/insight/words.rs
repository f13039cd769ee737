//! Words and runs of words, as numbers: texts are compared by what they say, not by white space, case or punctuation.

/// Words of one run. Four of them in the same order are rarely the same by chance.
pub(super) const RUN: usize = 4;

/// The words of a text, each as a hash.
pub(super) fn words(text: &str) -> Vec<u64> {
    let spoken = text
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty());
    spoken.map(word_hash).collect()
}

fn word_hash(word: &str) -> u64 {
    let mut hash = Fnv::default();
    if word.is_ascii() {
        word.bytes().for_each(|byte| hash.add(byte.to_ascii_lowercase()));
    } else {
        word.to_lowercase().bytes().for_each(|byte| hash.add(byte));
    }
    mixed(hash.0)
}

/// Every run of [`RUN`] words, in order. A text with fewer words has none.
pub(super) fn runs(words: &[u64]) -> impl Iterator<Item = u64> + '_ {
    words.windows(RUN).map(combined)
}

/// Some numbers in their order as one.
pub(super) fn combined(numbers: &[u64]) -> u64 {
    numbers.iter().fold(0, |all, number| mixed(all ^ number))
}

/// FNV-1a: words are short.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Fnv(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    fn add(&mut self, byte: u8) {
        self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
}

/// Spreads a number over all bits (the finaliser of SplitMix64), so that any bits of it may be compared.
pub(super) fn mixed(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_space_and_punctuation_do_not_count() {
        assert_eq!(words("Fix  the-parser!"), words("fix The\nparser"));
        assert_eq!(words("ÄRGER"), words("ärger"));
        assert_ne!(words("fix parser the"), words("fix the parser"));
        assert!(words(" -- ").is_empty());
    }

    #[test]
    fn a_run_is_its_words_in_order() {
        let of = |text: &str| runs(&words(text)).collect::<Vec<_>>();
        assert!(of("one two three").is_empty());
        assert_eq!(of("one two three four five").len(), 2);
        assert_eq!(of("one two three four")[0], of("one two three four five")[0]);
        assert_ne!(of("one two three four"), of("four three two one"));
    }
}
