//! Unsigned numbers in as few bytes as they need: seven bits a byte, the lowest first, the high bit while more follow.

pub fn write(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Takes a number off the front; `None` where it does not end, or is none of 64 bits.
pub fn read(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// How far a number is from the one before, in either direction: numbers close together take one byte each.
pub fn write_step(from: u64, to: u64, out: &mut Vec<u8>) {
    let step = to.wrapping_sub(from) as i64;
    write((step << 1 ^ step >> 63) as u64, out);
}

/// The number that [`write_step`] went to.
pub fn read_step(from: u64, bytes: &mut &[u8]) -> Option<u64> {
    let folded = read(bytes)?;
    let step = (folded >> 1) as i64 ^ -((folded & 1) as i64);
    Some(from.wrapping_add(step as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_lead_back_and_short_ones_are_short() {
        let numbers = [0, 1, 64, 63, u64::MAX, 0, 1 << 63, 7];
        let mut bytes = Vec::new();
        let mut from = 0;
        for to in numbers {
            write_step(from, to, &mut bytes);
            from = to;
        }
        let (mut rest, mut from) = (&bytes[..], 0);
        for to in numbers {
            from = read_step(from, &mut rest).unwrap();
            assert_eq!(from, to);
        }
        assert!(rest.is_empty());
        let mut short = Vec::new();
        write_step(1_000_000, 1_000_063, &mut short);
        assert_eq!(short.len(), 1);
    }
}
