//! Exchanges to test with: recorded ones beside the repository, hand-made ones inside it.
//!
//! Both are in exchange format v1, one JSON line per exchange. A body that is JSON in the line is taken as the
//! bytes it is written with there: its order of members, digits, escapes and white space are the body.
//! Recorded exchanges are not part of the repository, so [`captures`] may find none and says so; hand-made
//! ones are always there.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::value::RawValue;

/// One line of the exchange format, bodies as bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapturedExchange {
    pub id: String,
    pub at: String,
    pub owner: Option<String>,
    pub method: String,
    pub path: String,
    /// Names in lower case, as HTTP compares them.
    pub request_headers: BTreeMap<String, String>,
    pub request_body: Vec<u8>,
    /// None where the response never began.
    pub status: Option<u16>,
    pub response_headers: BTreeMap<String, String>,
    pub response_body: Vec<u8>,
    pub cut_off: bool,
    pub ended_at: Option<String>,
}

/// The exchanges of one file, in the order of its lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaptureFile {
    /// File name without `.exchanges.jsonl`.
    pub name: String,
    pub path: PathBuf,
    pub exchanges: Vec<CapturedExchange>,
}

#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    #[error("cannot read {path}")]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{path}, line {line}: not an exchange of format v1")]
    Line {
        path: PathBuf,
        line: usize,
        source: LineError,
    },
}

#[derive(Debug, thiserror::Error)]
pub enum LineError {
    #[error("not the JSON expected")]
    Json(#[from] serde_json::Error),
    #[error("format version {0} is unknown")]
    Version(u64),
    #[error("`body_base64` is no base64")]
    Base64(#[from] base64::DecodeError),
}

/// The folder that holds the workspace's `Cargo.toml`.
pub fn workspace_root() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = own.ancestors().nth(2);
    root.expect("the crate lies two folders below the workspace")
        .to_path_buf()
}

/// Recorded exchanges of `../shared/captures`, by file; None, with a word on stderr, where there are none.
#[expect(clippy::print_stderr, reason = "a skipped test must be seen")]
pub fn captures() -> Result<Option<Vec<CaptureFile>>, CaptureError> {
    let folder = workspace_root().join("../shared/captures");
    if !folder.is_dir() {
        eprintln!("skipped: ../shared/captures is not there");
        return Ok(None);
    }
    load_folder(&folder).map(Some)
}

/// The hand-made exchanges of `fixtures/exchanges`, by file.
pub fn fixtures() -> Result<Vec<CaptureFile>, CaptureError> {
    load_folder(&workspace_root().join("fixtures/exchanges"))
}

/// Every `*.exchanges.jsonl` of a folder, sorted by name.
pub fn load_folder(folder: &Path) -> Result<Vec<CaptureFile>, CaptureError> {
    let unreadable = |source| CaptureError::Read {
        path: folder.to_path_buf(),
        source,
    };
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        paths.push(entry.map_err(unreadable)?.path());
    }
    paths.sort();
    let named = paths.iter().filter_map(|path| Some((path, name_of(path)?)));
    named
        .map(|(path, name)| {
            Ok(CaptureFile {
                name,
                path: path.clone(),
                exchanges: load_file(path)?,
            })
        })
        .collect()
}

fn name_of(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    name.strip_suffix(".exchanges.jsonl").map(str::to_owned)
}

pub fn load_file(path: &Path) -> Result<Vec<CapturedExchange>, CaptureError> {
    let text = fs::read_to_string(path).map_err(|source| CaptureError::Read {
        path: path.to_path_buf(),
        source,
    })?;
    // Not `lines()`: a body in the line may hold a carriage return at its end only as an escape.
    let lines = text.split('\n').enumerate();
    lines
        .filter(|(_, line)| !line.trim().is_empty())
        .map(|(index, line)| {
            parse_line(line).map_err(|source| CaptureError::Line {
                path: path.to_path_buf(),
                line: index + 1,
                source,
            })
        })
        .collect()
}

/// One line of the format.
pub fn parse_line(line: &str) -> Result<CapturedExchange, LineError> {
    let line: Line<'_> = serde_json::from_str(line)?;
    if line.v != 1 {
        return Err(LineError::Version(line.v));
    }
    let request = line.request.unwrap_or_default();
    let response = line.response.unwrap_or_default();
    Ok(CapturedExchange {
        id: line.id,
        at: line.at,
        owner: line.owner,
        method: line.method,
        path: line.path,
        request_body: request.body_bytes()?,
        request_headers: request.lower_case_headers(),
        status: response.status,
        response_body: response.body_bytes()?,
        cut_off: response.cut_off.unwrap_or(false),
        response_headers: response.lower_case_headers(),
        ended_at: line.ended_at,
    })
}

#[derive(Deserialize)]
struct Line<'a> {
    v: u64,
    id: String,
    at: String,
    owner: Option<String>,
    method: String,
    path: String,
    #[serde(borrow)]
    request: Option<Side<'a>>,
    #[serde(borrow)]
    response: Option<Side<'a>>,
    ended_at: Option<String>,
}

/// Either side of the exchange; a request has no status and is never cut off.
#[derive(Deserialize, Default)]
struct Side<'a> {
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(borrow)]
    body: Option<&'a RawValue>,
    body_base64: Option<String>,
    status: Option<u16>,
    cut_off: Option<bool>,
}

impl Side<'_> {
    fn body_bytes(&self) -> Result<Vec<u8>, LineError> {
        if let Some(encoded) = &self.body_base64 {
            return Ok(STANDARD.decode(encoded)?);
        }
        let Some(body) = self.body.map(RawValue::get) else {
            return Ok(Vec::new());
        };
        if body.starts_with('"') {
            return Ok(serde_json::from_str::<String>(body)?.into_bytes());
        }
        Ok(body.as_bytes().to_vec())
    }

    fn lower_case_headers(&self) -> BTreeMap<String, String> {
        let headers = self.headers.iter();
        headers
            .map(|(name, value)| (name.to_ascii_lowercase(), value.clone()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(request: &str, response: &str) -> String {
        format!(
            r#"{{"v":1,"id":"x-1","at":"2026-01-01T00:00:00Z","method":"POST","path":"/v1/messages","request":{request},"response":{response}}}"#
        )
    }

    #[test]
    fn a_json_body_keeps_its_order_digits_escapes_and_spaces() {
        let body = r#"{"b": 0.0, "a":12345678901234567890123,"b":1, "s":"\ud83d \u00e9\/"}"#;
        let line = line(&format!(r#"{{"body":{body}}}"#), r#"{"status":200}"#);
        let exchange = parse_line(&line).unwrap();
        assert_eq!(exchange.request_body, body.as_bytes());
        assert_eq!(exchange.status, Some(200));
        assert_eq!(exchange.response_body, b"");
        assert!(!exchange.cut_off);
    }

    #[test]
    fn a_string_body_is_the_exact_text() {
        let line = line(
            r#"{"body":"{\"a\":1}\r\n","headers":{"Content-Type":"x"}}"#,
            r#"{"status":200,"body":"data: 1\n\n","cut_off":true}"#,
        );
        let exchange = parse_line(&line).unwrap();
        assert_eq!(exchange.request_body, b"{\"a\":1}\r\n");
        assert_eq!(exchange.request_headers["content-type"], "x");
        assert_eq!(exchange.response_body, b"data: 1\n\n");
        assert!(exchange.cut_off);
    }

    #[test]
    fn a_base64_body_is_its_bytes() {
        let line = line(r#"{"body_base64":"//4A"}"#, "null");
        let exchange = parse_line(&line).unwrap();
        assert_eq!(exchange.request_body, [0xff, 0xfe, 0]);
        assert_eq!(exchange.status, None);
    }

    #[test]
    fn an_unknown_version_is_refused() {
        let error = parse_line(&line("{}", "{}").replace("\"v\":1", "\"v\":2")).unwrap_err();
        assert_eq!(error.to_string(), "format version 2 is unknown");
    }
}
