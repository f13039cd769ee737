//! The elements of a JSON array (or one lone object) from bytes in any chunking.
//!
//! Gemini streams an array of chunks when it is not asked for events, and every provider may answer a
//! streaming request with one plain object. This cuts out the objects; reading them is the caller's.
//!
//! Invariant: at most [`MAX_EVENT_BYTES`] are held; a larger element is dropped and counted.

use crate::sse::MAX_EVENT_BYTES;

#[derive(Debug, Default)]
pub(crate) struct Elements {
    held: Vec<u8>,
    /// Open brackets of the current element; 0 between elements.
    depth: usize,
    in_string: bool,
    escaped: bool,
    in_array: bool,
    dropping: bool,
    /// Elements that were too large, and bytes that belong to no element.
    lost: bool,
}

impl Elements {
    /// Calls `on_element` with every object that the bytes complete, and whether it is an element of an array.
    pub(crate) fn push(&mut self, bytes: &[u8], mut on_element: impl FnMut(&[u8], bool)) {
        let mut rest = bytes;
        while let Some(first) = rest.first() {
            if self.depth == 0 {
                self.between(*first);
                rest = &rest[usize::from(self.depth == 0)..];
                continue;
            }
            let end = self.scan(rest);
            self.hold(&rest[..end]);
            rest = &rest[end..];
            if self.depth == 0 {
                if !self.dropping {
                    on_element(&self.held, self.in_array);
                }
                self.held.clear();
            }
        }
    }

    /// Something did not make it into an element.
    pub(crate) fn lost_something(&self) -> bool {
        self.lost
    }

    fn between(&mut self, byte: u8) {
        match byte {
            b'{' => {
                self.depth = 1;
                self.dropping = false;
                self.in_string = false;
            }
            b'[' if !self.in_array => self.in_array = true,
            b',' | b']' if self.in_array => {}
            b' ' | b'\n' | b'\r' | b'\t' => {}
            _ => self.lost = true,
        }
    }

    /// Goes on until the element ends or the bytes do; returns how many belong to it.
    fn scan(&mut self, bytes: &[u8]) -> usize {
        // The opening bracket has been counted when the element was entered.
        let opening = usize::from(self.held.is_empty() && !self.dropping);
        for (at, byte) in bytes.iter().enumerate().skip(opening) {
            if self.escaped {
                self.escaped = false;
            } else if self.in_string {
                self.escaped = *byte == b'\\';
                self.in_string = *byte != b'"';
            } else {
                match byte {
                    b'"' => self.in_string = true,
                    b'{' | b'[' => self.depth += 1,
                    b'}' | b']' => self.depth -= 1,
                    _ => {}
                }
                if self.depth == 0 {
                    return at + 1;
                }
            }
        }
        bytes.len()
    }

    fn hold(&mut self, bytes: &[u8]) {
        if !self.dropping && self.held.len() + bytes.len() > MAX_EVENT_BYTES {
            self.dropping = true;
            self.lost = true;
            self.held = Vec::new();
        }
        if !self.dropping {
            self.held.extend_from_slice(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[&str], lost: bool) {
        for width in [1, 2, 3, text.len().max(1)] {
            let mut elements = Elements::default();
            let mut found = Vec::new();
            for chunk in text.as_bytes().chunks(width) {
                elements.push(chunk, |element, _| {
                    found.push(String::from_utf8_lossy(element).into_owned());
                });
            }
            assert_eq!(found, expected, "{width}");
            assert_eq!(elements.lost_something(), lost);
        }
    }

    #[test]
    fn cuts_out_the_objects() {
        check(
            r#"[{"a":"}]\""},{"b":[{}]} ] "#,
            &[r#"{"a":"}]\""}"#, r#"{"b":[{}]}"#],
            false,
        );
        check(r#" {"a":1}"#, &[r#"{"a":1}"#], false);
        check(r#"[{"a":1},{"b":"#, &[r#"{"a":1}"#], false);
        check("[1]", &[], true);
    }
}
