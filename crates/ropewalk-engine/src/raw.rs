//! An exchange as a recorder or a file has it: bytes, headers and times, nothing decoded.

use bytes::Bytes;
use jiff::Timestamp;
use ropewalk_store::Micros;
use ropewalk_store::facts::Provenance;
use ropewalk_wire::exchange::{ExchangeLine, Half, LineNames};

use crate::view::utc;

#[derive(Debug, Clone)]
pub struct RawExchange {
    pub id: String,
    pub at: Micros,
    pub ended_at: Option<Micros>,
    /// When each spawning tool call ended in the stream, by tool_use id.
    pub spawned_at: Vec<(String, Micros)>,
    pub method: String,
    /// The request target as it came, prefixes and query included.
    pub path: String,
    pub request_headers: Vec<(String, String)>,
    pub request_body: Bytes,
    /// What the provider got in the request's place.
    pub sent_body: Option<Bytes>,
    pub status: Option<u16>,
    pub response_headers: Vec<(String, String)>,
    /// `None` while no response has ended; an empty one is `Some`.
    pub response_body: Option<Bytes>,
    /// The connection ended before the response did.
    pub cut_off: bool,
    /// Names that were given out for it elsewhere.
    pub names: LineNames,
    pub witness: Witness,
    pub provenance: Option<Provenance>,
}

/// What is known only to who was there when the exchange took place; a file does not say it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Witness {
    /// The answer came from the store: no provider was asked.
    pub is_reused: bool,
    /// It was cut off because the client went away.
    pub client_left: bool,
    /// When the response began.
    pub first_byte_at: Option<Micros>,
    /// Whoever recorded it kept only the headers that it was told to keep: all that are there may be written down.
    pub headers_are_chosen: bool,
    /// By when how many bytes of the response's body had come, growing in both.
    pub arrivals: Vec<(u64, Micros)>,
}

impl RawExchange {
    /// The first request header of that name, in any case.
    pub fn request_header(&self, name: &str) -> Option<&str> {
        header(&self.request_headers, name)
    }

    /// The first response header of that name, in any case.
    pub(crate) fn response_header(&self, name: &str) -> Option<&str> {
        header(&self.response_headers, name)
    }

    /// As a line of the exchange format. What only a witness knows is not in it.
    pub fn to_line(&self, owner: &str) -> ExchangeLine {
        let spawned_at = self.spawned_at.iter();
        ExchangeLine {
            id: self.id.clone(),
            at: utc(self.at),
            ended_at: self.ended_at.map(utc),
            spawned_at: spawned_at.map(|(id, at)| (id.clone(), utc(*at))).collect(),
            owner: Some(owner.to_owned()),
            method: self.method.clone(),
            path: self.path.clone(),
            request: Half {
                headers: self.request_headers.clone(),
                body: self.request_body.to_vec(),
            },
            sent: self.sent_body.as_ref().map(|body| body.to_vec()),
            response: self.response_body.as_ref().map(|body| Half {
                headers: self.response_headers.clone(),
                body: body.to_vec(),
            }),
            status: self.status,
            cut_off: self.cut_off,
            names: self.names.clone(),
        }
    }
}

fn header<'h>(headers: &'h [(String, String)], name: &str) -> Option<&'h str> {
    let found = headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    found.map(|(_, value)| value.as_str())
}

#[derive(Debug, thiserror::Error)]
#[error("`{member}` is no time: `{text}`")]
pub struct TimeError {
    pub member: &'static str,
    pub text: String,
    #[source]
    pub source: jiff::Error,
}

impl TryFrom<ExchangeLine> for RawExchange {
    type Error = TimeError;

    fn try_from(line: ExchangeLine) -> Result<Self, TimeError> {
        let ended_at = line.ended_at.as_deref().map(|text| micros("ended_at", text));
        let spawned_at = line.spawned_at.into_iter().map(|(id, text)| {
            let at = micros("spawned_at", &text)?;
            Ok((id, at))
        });
        let (response_headers, response_body) = match line.response {
            Some(half) => (half.headers, Some(Bytes::from(half.body))),
            None => (Vec::new(), None),
        };
        Ok(RawExchange {
            at: micros("at", &line.at)?,
            ended_at: ended_at.transpose()?,
            spawned_at: spawned_at.collect::<Result<_, TimeError>>()?,
            id: line.id,
            method: line.method,
            path: line.path,
            request_headers: line.request.headers,
            request_body: Bytes::from(line.request.body),
            sent_body: line.sent.map(Bytes::from),
            status: line.status,
            response_headers,
            response_body,
            cut_off: line.cut_off,
            names: line.names,
            witness: Witness::default(),
            provenance: None,
        })
    }
}

fn micros(member: &'static str, text: &str) -> Result<Micros, TimeError> {
    match text.parse::<Timestamp>() {
        Ok(time) => Ok(Micros(time.as_microsecond())),
        Err(source) => Err(TimeError {
            member,
            text: text.chars().take(TIME_CHARS_SHOWN).collect(),
            source,
        }),
    }
}

/// How much of a bad time an error quotes.
const TIME_CHARS_SHOWN: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn line(members: &str) -> ExchangeLine {
        let line = format!(r#"{{"v":1,"id":"x","path":"/v1/messages","request":{{"body":""}},{members}}}"#);
        ExchangeLine::parse(line.as_bytes()).unwrap()
    }

    #[test]
    fn times_are_read_to_the_microsecond() {
        let raw = RawExchange::try_from(line(
            r#""at":"1970-01-01T00:00:01.000002Z","ended_at":"1970-01-01T02:00:03+02:00","spawned_at":{"t":"1970-01-01T00:00:02Z"}"#,
        ))
        .unwrap();
        assert_eq!((raw.at, raw.ended_at), (Micros(1_000_002), Some(Micros(3_000_000))));
        assert_eq!(raw.spawned_at, [("t".to_owned(), Micros(2_000_000))]);
        assert!(raw.response_body.is_none());
    }

    #[test]
    fn an_exchange_comes_back_from_its_line() {
        let text = r#"{"v":1,"id":"x","at":"1970-01-01T00:00:01.000002Z","spawned_at":{"t":"1970-01-01T00:00:02.000000Z"},"owner":"ann","method":"POST","path":"/v1/messages","request":{"headers":{"a":"b"},"body":{"q":1}},"response":{"status":200,"headers":{},"body":"data","cut_off":true},"ended_at":"1970-01-01T00:00:03.000000Z"}"#;
        let line = ExchangeLine::parse(text.as_bytes()).unwrap();
        let raw = RawExchange::try_from(line.clone()).unwrap();
        assert_eq!(raw.to_line("ann"), line);
    }

    #[test]
    fn a_bad_time_is_an_error_that_names_it() {
        for (members, named) in [
            (r#""at":"yesterday""#, "at"),
            (
                r#""at":"2026-01-01T00:00:00Z","ended_at":"2026-13-01T00:00:00Z""#,
                "ended_at",
            ),
            (r#""at":"2026-01-01T00:00:00Z","spawned_at":{"t":""}"#, "spawned_at"),
        ] {
            assert_eq!(RawExchange::try_from(line(members)).unwrap_err().member, named);
        }
    }
}
