//! Properties of generated streams.

use proptest::collection::vec;
use proptest::prelude::*;
use ropewalk_core::model::{Block, Provider};
use ropewalk_wire::response::{Decoded, decode, decode_response};
use ropewalk_wire::stream::Accumulator;

use crate::generate::answer;

pub(crate) fn accumulate<'b>(provider: Provider, chunks: impl IntoIterator<Item = &'b [u8]>) -> Decoded {
    let mut accumulator = Accumulator::new(provider);
    for chunk in chunks {
        accumulator.push(chunk);
    }
    accumulator.finish()
}

/// Cuts at the given places, taken modulo the length.
pub(crate) fn chunks<'b>(bytes: &'b [u8], places: &[usize]) -> Vec<&'b [u8]> {
    let mut places: Vec<usize> = places.iter().map(|place| place % (bytes.len() + 1)).collect();
    places.extend([0, bytes.len()]);
    places.sort_unstable();
    places.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(192) })]

    #[test]
    fn a_stream_accumulates_to_what_its_body_decodes_to(answer in answer()) {
        let streamed = accumulate(answer.provider, [answer.stream().as_bytes()]);
        let plain = decode(answer.provider, 200, Some("application/json"), answer.body.as_bytes());
        prop_assert!(plain.response.complete);
        prop_assert_eq!(streamed, plain);
    }

    #[test]
    fn the_chunking_does_not_matter(answer in answer(), places in vec(any::<usize>(), 0..40)) {
        let stream = answer.stream();
        let whole = accumulate(answer.provider, [stream.as_bytes()]);
        let cut = accumulate(answer.provider, chunks(stream.as_bytes(), &places));
        let bytes = accumulate(answer.provider, stream.as_bytes().chunks(1));
        prop_assert_eq!(&cut, &whole);
        prop_assert_eq!(&bytes, &whole);
    }

    #[test]
    fn no_prefix_is_complete_before_the_terminal_event(answer in answer()) {
        let stream = answer.stream();
        let before_end = stream.len() - answer.events.last().map_or(0, String::len);
        let mut accumulator = Accumulator::new(answer.provider);
        for byte in &stream.as_bytes()[..before_end] {
            accumulator.push(std::slice::from_ref(byte));
            prop_assert!(!accumulator.message().complete);
        }
        accumulator.push(&stream.as_bytes()[before_end..]);
        prop_assert!(accumulator.is_complete());
    }

    #[test]
    fn every_call_is_reported_once_in_order(answer in answer()) {
        let mut accumulator = Accumulator::new(answer.provider);
        let mut reported = Vec::new();
        for event in &answer.events {
            accumulator.push(event.as_bytes());
            reported.extend(accumulator.finished_tool_uses().into_iter().map(|call| (call.id, call.name)));
        }
        let mut calls = Vec::new();
        for block in accumulator.message().blocks {
            if let Block::ToolUse(call) = block {
                calls.push((call.id, call.name));
            }
        }
        prop_assert_eq!(reported, calls);
    }

    #[test]
    fn lost_events_never_panic_and_broken_ones_never_complete(answer in answer(), hole in any::<usize>()) {
        let hole = hole % answer.events.len();
        let mut events = answer.events.clone();
        events.remove(hole);
        accumulate(answer.provider, events.iter().map(|event| event.as_bytes()));
        if answer.events[0].starts_with('[') {
            return Ok(());
        }
        events.insert(hole, "data: {broken\n\n".to_owned());
        let broken = accumulate(answer.provider, events.iter().map(|event| event.as_bytes()));
        prop_assert!(!broken.response.complete);
    }

    #[test]
    fn flipped_bytes_never_panic(answer in answer(), flips in vec((any::<usize>(), any::<u8>()), 1..8)) {
        for text in [answer.stream(), answer.body] {
            let mut bytes = text.into_bytes();
            for (place, byte) in &flips {
                let place = place % bytes.len();
                bytes[place] = *byte;
            }
            for provider in PROVIDERS {
                decode_response(provider, 200, None, &bytes);
                accumulate(provider, bytes.chunks(7));
            }
        }
    }

    #[test]
    fn any_bytes_never_panic(bytes in vec(any::<u8>(), 0..200)) {
        for provider in PROVIDERS {
            decode_response(provider, 200, None, &bytes);
            decode_response(provider, 500, Some("text/event-stream"), &bytes);
        }
    }
}

const PROVIDERS: [Provider; 4] = [
    Provider::Anthropic,
    Provider::OpenAiChat,
    Provider::OpenAiResponses,
    Provider::Gemini,
];
