//! The caller's span, as the W3C's `traceparent` header names it.

/// Where a client's trace is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceParent {
    pub trace_id: [u8; 16],
    pub span_id: [u8; 8],
    /// The client keeps its trace, so our part of it is to be kept as well.
    pub is_sampled: bool,
}

impl TraceParent {
    /// `None` for what the specification tells to ignore.
    pub fn parse(text: &str) -> Option<Self> {
        let mut fields = text.trim().split('-');
        let version: [u8; 1] = digits(fields.next()?)?;
        let parent = TraceParent {
            trace_id: digits(fields.next()?)?,
            span_id: digits(fields.next()?)?,
            is_sampled: digits::<1>(fields.next()?)?[0] & 1 == 1,
        };
        // Later versions may say more behind it; the first one may not.
        let is_version_known = version[0] != 0xff && (version[0] > 0 || fields.next().is_none());
        let is_somebody = parent.trace_id != [0; 16] && parent.span_id != [0; 8];
        (is_version_known && is_somebody).then_some(parent)
    }
}

/// Lower-case ones: others are invalid.
fn digits<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    let is_lower = !text.bytes().any(|byte| byte.is_ascii_uppercase());
    (is_lower && hex::decode_to_slice(text, &mut bytes).is_ok()).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const SPAN: &str = "00f067aa0ba902b7";

    #[test]
    fn reads_what_the_specification_allows_and_nothing_else() {
        let parent = TraceParent::parse(&format!("00-{TRACE}-{SPAN}-01")).unwrap();
        assert_eq!(hex::encode(parent.trace_id), TRACE);
        assert_eq!(
            (hex::encode(parent.span_id), parent.is_sampled),
            (SPAN.to_owned(), true)
        );
        assert!(!TraceParent::parse(&format!("00-{TRACE}-{SPAN}-00")).unwrap().is_sampled);
        assert!(TraceParent::parse(&format!("01-{TRACE}-{SPAN}-01-more")).is_some());
        for bad in [
            String::new(),
            "00-0".to_owned(),
            format!("ff-{TRACE}-{SPAN}-01"),
            format!("00-{TRACE}-{SPAN}-01-more"),
            format!("00-{TRACE}-{SPAN}"),
            format!("00-{}-{SPAN}-01", "0".repeat(32)),
            format!("00-{TRACE}-{}-01", "0".repeat(16)),
            format!("00-{}-{SPAN}-01", TRACE.to_uppercase()),
            format!("00-{TRACE}-{SPAN}-0g"),
            "\u{1f600}-é-\u{0}-01".to_owned(),
        ] {
            assert_eq!(TraceParent::parse(&bad), None, "{bad}");
        }
    }
}
