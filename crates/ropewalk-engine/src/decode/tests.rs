use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;
use ropewalk_testkit::upstream::{Encoding, encode, gibibyte_of_zeros};

use super::*;

fn encoded(encoding: Encoding, text: &[u8]) -> Bytes {
    Bytes::from(encode(encoding, [Bytes::copy_from_slice(text)]).concat())
}

fn limits() -> DecodeLimits {
    DecodeLimits {
        // Not what these tests are about, and the machine may be busy.
        time_max: Duration::from_secs(60),
        ..DecodeLimits::default()
    }
}

/// Pieces of these sizes, in turn, with what each adds.
fn in_pieces(name: &str, bytes: &[u8], sizes: &[usize]) -> (Vec<u8>, DecodeEnd) {
    let Encoded::As(mut decoder) = Decoder::new(name, &limits()) else {
        panic!("{name} is an encoding");
    };
    let (mut out, mut rest) = (Vec::new(), bytes);
    for size in sizes.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (piece, after) = rest.split_at((*size).clamp(1, rest.len()));
        decoder.push(piece, &mut out);
        rest = after;
    }
    (out, decoder.finish())
}

fn any_encoding() -> impl Strategy<Value = Encoding> {
    prop::sample::select(Encoding::ALL.to_vec())
}

proptest! {
    #[test]
    fn decodes_what_real_encoders_write_in_any_chunking(
        encoding in any_encoding(),
        text in prop::collection::vec(prop_oneof![Just(b'a'), any::<u8>()], 0..5_000),
        repeat in 1_usize..30,
        sizes in prop::collection::vec(1_usize..2_000, 1..5),
    ) {
        let text = text.repeat(repeat);
        let body = encoded(encoding, &text);
        let whole = decode(&body, encoding.name(), &limits());
        prop_assert_eq!((&whole.bytes[..], whole.end), (&text[..], DecodeEnd::Whole));
        let (pieces, end) = in_pieces(encoding.name(), &body, &sizes);
        prop_assert_eq!((&pieces[..], end), (&text[..], DecodeEnd::Whole));
    }

    #[test]
    fn a_truncated_body_gives_a_beginning_and_says_so(
        encoding in any_encoding(),
        text in prop::collection::vec(any::<u8>(), 1..3_000),
        keep in 0.0..1.0,
    ) {
        let body = encoded(encoding, &text);
        // At least one byte, and not all of them.
        let kept = ((body.len() - 1) as f64 * keep) as usize;
        let decoded = decode(&body.slice(..kept.max(1)), encoding.name(), &limits());
        prop_assert!(text.starts_with(&decoded.bytes));
        prop_assert_eq!(decoded.end, DecodeEnd::Truncated);
    }

    #[test]
    fn damage_never_panics_nor_hangs(
        name in prop::sample::select(vec!["gzip", "deflate", "br", "zstd", "gzip, br", "x-gzip", "what"]),
        bytes in prop::collection::vec(any::<u8>(), 0..400),
        encoding in any_encoding(),
        at in 0_usize..200,
        with in any::<u8>(),
    ) {
        decode(&Bytes::from(bytes), name, &limits());
        let mut body = encoded(encoding, b"some text that is long enough to be damaged, damaged, damaged").to_vec();
        let at = at % body.len();
        body[at] ^= with;
        let decoded = decode(&Bytes::from(body), encoding.name(), &limits());
        prop_assert!(decoded.bytes.len() <= limits().decoded_bytes_max);
    }

    #[test]
    fn stacked_encodings_are_read_from_the_outside_in(
        inner in any_encoding(),
        outer in any_encoding(),
        text in prop::collection::vec(any::<u8>(), 0..2_000),
        sizes in prop::collection::vec(1_usize..100, 1..3),
    ) {
        let body = encoded(outer, &encoded(inner, &text));
        let names = format!("{}, {}", inner.name(), outer.name());
        let decoded = decode(&body, &names, &limits());
        prop_assert_eq!((&decoded.bytes[..], decoded.end), (&text[..], DecodeEnd::Whole));
        let (pieces, end) = in_pieces(&names, &body, &sizes);
        prop_assert_eq!((&pieces[..], end), (&text[..], DecodeEnd::Whole));
    }
}

#[test]
fn a_plain_body_is_not_copied() {
    let body = Bytes::from_static(b"plain");
    for name in ["", "identity", " Identity , ", "identity, identity"] {
        let decoded = decode(&body, name, &limits());
        assert_eq!((decoded.bytes.as_ptr(), decoded.end), (body.as_ptr(), DecodeEnd::Whole));
    }
    for name in ["compress", "gzip, x", "gzip,gzip,gzip,gzip,gzip"] {
        let decoded = decode(&body, name, &limits());
        assert_eq!(
            (decoded.bytes.as_ptr(), decoded.end),
            (body.as_ptr(), DecodeEnd::Unknown)
        );
    }
}

#[test]
fn an_empty_body_is_whole() {
    for encoding in Encoding::ALL {
        assert_eq!(decode(&Bytes::new(), encoding.name(), &limits()).end, DecodeEnd::Whole);
        let decoded = decode(&encoded(encoding, b""), encoding.name(), &limits());
        assert_eq!(
            (decoded.bytes.len(), decoded.end),
            (0, DecodeEnd::Whole),
            "{encoding:?}"
        );
    }
}

/// Zeros, encoded in blocks so that the test itself stays small.
fn bomb(encoding: Encoding, megabytes: usize) -> Bytes {
    let block = Bytes::from(vec![0; 1 << 20]);
    Bytes::from(encode(encoding, std::iter::repeat_n(block, megabytes)).concat())
}

#[test]
fn bombs_stop_at_the_ratio() {
    for encoding in Encoding::ALL {
        let body = bomb(encoding, 96);
        let decoded = decode(&body, encoding.name(), &limits());
        let most = (body.len() as u64 * limits().ratio_max).max(limits().ratio_free_bytes);
        assert_eq!(decoded.end, DecodeEnd::TooLarge, "{encoding:?}");
        assert_eq!(
            decoded.bytes.len() as u64,
            most.min(limits().decoded_bytes_max as u64),
            "{encoding:?}"
        );
    }
}

#[test]
fn bombs_stop_at_the_cap() {
    let limits = DecodeLimits {
        ratio_max: u64::MAX,
        decoded_bytes_max: 1_000_001,
        ..limits()
    };
    for encoding in Encoding::ALL {
        let decoded = decode(&bomb(encoding, 4), encoding.name(), &limits);
        assert_eq!(
            (decoded.bytes.len(), decoded.end),
            (1_000_001, DecodeEnd::TooLarge),
            "{encoding:?}"
        );
    }
}

#[test]
fn a_gibibyte_of_zeros_in_809_bytes_stops_at_the_cap() {
    let body = gibibyte_of_zeros();
    assert_eq!(body.len(), 809);
    let decoded = decode(&body, "br", &limits());
    assert_eq!((decoded.bytes.len(), decoded.end), (8 << 20, DecodeEnd::TooLarge));
    let without_ratio = DecodeLimits {
        ratio_max: u64::MAX,
        ..limits()
    };
    let decoded = decode(&body, "br", &without_ratio);
    assert_eq!(
        (decoded.bytes.len(), decoded.end),
        (limits().decoded_bytes_max, DecodeEnd::TooLarge)
    );
}

#[test]
fn a_layer_that_collapses_again_is_counted_too() {
    // The middle layer is 64 MB of zeros, which are no gzip and decode to nothing.
    let body = bomb(Encoding::Brotli, 64);
    let decoded = decode(&body, "gzip, br", &limits());
    assert_eq!(decoded.bytes.len(), 0);
    assert_ne!(decoded.end, DecodeEnd::Whole);
}

#[test]
fn time_is_a_limit() {
    let none = DecodeLimits {
        time_max: Duration::ZERO,
        ..limits()
    };
    assert_eq!(decode(&bomb(Encoding::Gzip, 1), "gzip", &none).end, DecodeEnd::TooSlow);
}

#[test]
fn members_and_frames_follow_each_other_and_rubbish_is_damage() {
    for encoding in [Encoding::Gzip, Encoding::Zstd] {
        let two = [encoded(encoding, b"one "), encoded(encoding, b"two")].concat();
        let decoded = decode(&Bytes::from(two), encoding.name(), &limits());
        assert_eq!((&decoded.bytes[..], decoded.end), (&b"one two"[..], DecodeEnd::Whole));
    }
    for encoding in Encoding::ALL {
        let body = [&encoded(encoding, b"text")[..], b"rubbish"].concat();
        let decoded = decode(&Bytes::from(body), encoding.name(), &limits());
        assert_eq!(
            (&decoded.bytes[..], decoded.end),
            (&b"text"[..], DecodeEnd::Damaged),
            "{encoding:?}"
        );
    }
}

#[test]
fn a_gzip_header_with_everything_in_it_is_skipped() {
    use std::io::Write as _;
    let builder = flate2::GzBuilder::new()
        .filename("a.json")
        .comment("c")
        .extra(vec![1, 2, 3]);
    let mut encoder = builder.write(Vec::new(), flate2::Compression::fast());
    encoder.write_all(b"text").unwrap();
    let body = encoder.finish().unwrap();
    assert_eq!(in_pieces("gzip", &body, &[1]), (b"text".to_vec(), DecodeEnd::Whole));
}

#[test]
fn each_flushed_piece_can_be_read_when_it_is_there() {
    for encoding in Encoding::ALL {
        let pieces = encode(encoding, ["data: 1\n\n", "data: 2\n\n"].map(Bytes::from));
        let Encoded::As(mut decoder) = Decoder::new(encoding.name(), &limits()) else {
            panic!("an encoding");
        };
        let mut out = Vec::new();
        decoder.push(&pieces[0], &mut out);
        assert_eq!(out, b"data: 1\n\n", "{encoding:?}");
    }
}
