//! The bytes of the format. A change here needs a new marker, and a reader for the old one.

use bytes::Bytes;
use ropewalk_proxy::journal::payload::{self, BeginParts, EndParts, Ending, Gap, HeadParts, Mark, Payload};
use ropewalk_proxy::journal::record::{self, HEADER_BYTES, Header, Kind, Sequence};
use ropewalk_store::Micros;
use uuid::Uuid;

const SALT: u32 = 0xdead_beef;

fn record(kind: Kind, sequence: u32, payload: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut buffer = b"before".to_vec();
    let at = record::start(&mut buffer);
    payload(&mut buffer);
    let exchange = Sequence::new(7, 1);
    record::finish(&mut buffer, at, kind, exchange, Sequence::new(7, sequence), SALT);
    buffer.split_off(at)
}

fn header<'h>() -> impl Iterator<Item = (&'h str, &'h [u8])> {
    [("a", &b"b"[..])].into_iter()
}

fn head() -> HeadParts<impl Iterator<Item = (&'static str, &'static [u8])>> {
    HeadParts {
        at: Micros(3),
        status: 200,
        headers: header(),
    }
}

fn all() -> Vec<(Kind, Vec<u8>, &'static str)> {
    let begin = record(Kind::Begin, 1, |out| {
        let parts = BeginParts {
            id: Uuid::from_u128(0x0102),
            at: Micros(2),
            owner: "ann",
            method: "POST",
            target: "/v1",
            headers: header(),
            is_whole: true,
        };
        payload::write_begin(out, parts);
        out.extend_from_slice(b"{}");
    });
    let request_chunk = record(Kind::RequestChunk, 2, |out| {
        payload::write_request_chunk(out, false);
        out.extend_from_slice(b"{}");
    });
    let response_chunk = record(Kind::ResponseChunk, 3, |out| {
        payload::write_response_chunk(out, Micros(4), Some(head()), false);
        out.extend_from_slice(b"{}");
    });
    let end = record(Kind::End, 4, |out| {
        let mark = |offset, at| Mark { offset, at: Micros(at) };
        let marks = [mark(1, 1000), mark(300, 1001)];
        let end = EndParts {
            ending: Ending::ClientCancelled,
            at: Micros(5),
            redactions: 6,
            marks: &marks,
            is_reused: false,
        };
        payload::write_end(out, end, Some(head()));
        out.extend_from_slice(b"{}");
    });
    let gap = record(Kind::Gap, 5, |out| {
        let gap = Gap {
            exchanges: 1,
            bytes: 2,
            since: 3,
            until: 4,
        };
        payload::write_gap(out, &gap);
    });
    let sent_chunk = record(Kind::SentChunk, 6, |out| {
        payload::write_request_chunk(out, true);
        out.extend_from_slice(b"{}");
    });
    vec![
        (
            Kind::Begin,
            begin,
            "\
             f75277013200000001000000055d04ca01000000070000000100000007000000f024833a\
             010000000000000000000000000000010202000000000000000300616e6e0400504f535403002f7631010100610100627b7d",
        ),
        (
            Kind::RequestChunk,
            request_chunk,
            "\
             f7527701030000000200000002047eb80100000007000000020000000700000037bcdb8d\
             007b7d",
        ),
        (
            Kind::ResponseChunk,
            response_chunk,
            "\
             f75277011c00000003000000c35f218e01000000070000000300000007000000e21a46fb\
             0104000000000000000300000000000000c800010100610100627b7d",
        ),
        (
            Kind::End,
            end,
            "\
             f75277012800000004000000e6a271e2010000000700000004000000070000002faabd6e\
             01010500000000000000060000000201e807ab02010300000000000000c800010100610100627b7d",
        ),
        (
            Kind::Gap,
            gap,
            "\
             f7527701200000000500000012f7a1f401000000070000000500000007000000aad1787d\
             0100000000000000020000000000000003000000000000000400000000000000",
        ),
        (
            Kind::SentChunk,
            sent_chunk,
            "\
             f752770103000000060000007c963f1d01000000070000000600000007000000b829f23b\
             017b7d",
        ),
    ]
}

#[test]
fn the_bytes_are_frozen() {
    let hex = |bytes: &[u8]| -> String { bytes.iter().map(|byte| format!("{byte:02x}")).collect() };
    let written: Vec<_> = all().iter().map(|(_, bytes, _)| hex(bytes)).collect();
    let expected: Vec<_> = all().iter().map(|(_, _, expected)| expected.to_string()).collect();
    assert_eq!(written, expected);
}

#[test]
fn what_is_written_is_read() {
    for (kind, bytes, _) in all() {
        let header = Header::read(&bytes, SALT).unwrap();
        assert_eq!((header.kind, header.exchange), (kind, Sequence::new(7, 1)));
        assert_eq!(header.record_bytes(), bytes.len() as u64);
        let payload = Bytes::copy_from_slice(&bytes[HEADER_BYTES..]);
        assert!(header.fits(&payload));
        match Payload::read(kind, payload).unwrap() {
            Payload::Begin(begin) => {
                assert_eq!((&*begin.owner, &*begin.method, &*begin.target), ("ann", "POST", "/v1"));
                assert_eq!((begin.id, begin.at), (Uuid::from_u128(0x0102), Micros(2)));
                assert_eq!(begin.headers, [("a".to_owned(), "b".to_owned())]);
                assert!(begin.is_whole && begin.body == "{}");
            }
            Payload::RequestChunk(chunk) => assert!(!chunk.is_last && chunk.body == "{}"),
            Payload::SentChunk(chunk) => assert!(chunk.is_last && chunk.body == "{}"),
            Payload::ResponseChunk(chunk) => {
                assert_eq!((chunk.at, chunk.head.unwrap().status), (Micros(4), 200));
                assert_eq!(chunk.body, "{}");
            }
            Payload::End(end) => {
                assert_eq!(
                    (end.ending, end.at, end.redactions),
                    (Ending::ClientCancelled, Micros(5), 6)
                );
                let marks: Vec<_> = end.marks.iter().map(|mark| (mark.offset, mark.at.0)).collect();
                assert_eq!(marks, [(1, 1000), (300, 1001)]);
                assert_eq!((end.head.unwrap().at, end.body), (Micros(3), Bytes::from("{}")));
            }
            Payload::Gap(gap) => assert_eq!((gap.exchanges, gap.bytes, gap.since, gap.until), (1, 2, 3, 4)),
        }
    }
}

#[test]
fn a_record_of_another_segment_is_none() {
    let (_, bytes, _) = all().remove(0);
    assert!(Header::read(&bytes, SALT + 1).is_none());
}

#[test]
fn a_payload_that_is_cut_is_none_and_no_panic() {
    for (kind, bytes, _) in all() {
        let payload = Bytes::copy_from_slice(&bytes[HEADER_BYTES..]);
        // What stands before the body needs all of its bytes.
        let body = if kind == Kind::Gap { 0 } else { 2 };
        for length in 0..payload.len() - body {
            assert!(
                Payload::read(kind, payload.slice(..length)).is_none(),
                "{kind:?} {length}"
            );
        }
    }
}
