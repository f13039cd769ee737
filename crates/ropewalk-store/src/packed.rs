//! Small lists as bytes, and kinds as numbers: hashes, keys, usage, roots of ropes, statuses. Their formats are stored;
//! extend them, never change them.

use ropewalk_core::hash::NodeHash;
use ropewalk_core::leb128;
use ropewalk_core::model::Usage;
use ropewalk_core::rope::Rope;

use crate::derived::LinkKind;
use crate::facts::{HashKind, Key, KeyKind, Micros, Provenance, SHORT_KEY_BYTES, Status, TextSource};
use crate::log::{RecordKind, RecordRow};
use crate::store::{Result, StoreError};

/// The hashes of those kinds.
pub(crate) fn write_hashes(hashes: &[(HashKind, Vec<u8>)], is_wanted: impl Fn(HashKind) -> bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(hashes.len() * 34);
    for (kind, hash) in hashes.iter().filter(|(kind, _)| is_wanted(*kind)) {
        out.extend([hash_code(*kind), hash.len().min(255) as u8]);
        out.extend(hash.iter().take(255));
    }
    out
}

pub(crate) fn read_hashes(mut bytes: &[u8]) -> Result<Vec<(HashKind, Vec<u8>)>> {
    let mut hashes = Vec::new();
    while let [code, length, rest @ ..] = bytes {
        let kind = HashKind::ALL.into_iter().find(|kind| hash_code(*kind) == *code);
        let (hash, rest) = rest.split_at_checked(usize::from(*length)).ok_or_else(damaged)?;
        // A kind of a later version is passed over.
        hashes.extend(kind.map(|kind| (kind, hash.to_vec())));
        bytes = rest;
    }
    Ok(hashes)
}

fn hash_code(kind: HashKind) -> u8 {
    place_in(&HashKind::ALL, kind)
}

/// The lists of kinds only ever grow at their ends, so a place in them is a stable code.
fn place_in<T: PartialEq + Copy>(all: &[T], one: T) -> u8 {
    all.iter().position(|known| *known == one).unwrap_or_default() as u8
}

pub(crate) fn status_code(status: Status) -> i16 {
    i16::from(place_in(&Status::ALL, status))
}

pub(crate) fn status_of(code: i16) -> Result<Status> {
    let place = usize::try_from(code).ok();
    let status = place.and_then(|place| Status::ALL.get(place)).copied();
    status.ok_or_else(|| StoreError::Damaged("an exchange has an unknown status".to_owned()))
}

pub(crate) fn source_code(source: TextSource) -> i16 {
    i16::from(place_in(&TextSource::ALL, source))
}

pub(crate) fn source_of(code: i16) -> Result<TextSource> {
    let place = usize::try_from(code).ok();
    let source = place.and_then(|place| TextSource::ALL.get(place)).copied();
    source.ok_or_else(|| StoreError::Damaged("a text has an unknown source".to_owned()))
}

pub(crate) fn link_kind_code(kind: LinkKind) -> i16 {
    i16::from(place_in(&LinkKind::ALL, kind))
}

pub(crate) fn link_kind_of(code: i16) -> Result<LinkKind> {
    let place = usize::try_from(code).ok();
    let kind = place.and_then(|place| LinkKind::ALL.get(place)).copied();
    kind.ok_or_else(|| StoreError::Damaged("a link has an unknown kind".to_owned()))
}

/// Says of a key that only the beginning of its hash is written.
const IS_SHORT: u8 = 0x80;

pub(crate) fn write_keys(keys: &[Key]) -> Vec<u8> {
    let mut out = Vec::with_capacity(keys.len() * 33);
    for key in keys {
        let (beginning, rest) = key.hash.split_at(SHORT_KEY_BYTES);
        let is_short = rest.iter().all(|byte| *byte == 0);
        out.push(key.kind.code() | if is_short { IS_SHORT } else { 0 });
        out.extend(if is_short { beginning } else { &key.hash });
    }
    out
}

pub(crate) fn read_keys(mut bytes: &[u8]) -> Result<Vec<Key>> {
    let mut keys = Vec::with_capacity(bytes.len() / 17);
    while let Some((code, rest)) = bytes.split_first() {
        let length = if code & IS_SHORT == 0 { 32 } else { SHORT_KEY_BYTES };
        let (written, rest) = rest.split_at_checked(length).ok_or_else(damaged)?;
        let mut hash = [0; 32];
        hash[..length].copy_from_slice(written);
        keys.extend(KeyKind::of_code(code & !IS_SHORT).map(|kind| Key { kind, hash }));
        bytes = rest;
    }
    Ok(keys)
}

pub(crate) fn write_usage(usage: &Usage) -> Vec<u8> {
    let mut out = Vec::new();
    for count in [
        usage.input_tokens,
        usage.output_tokens,
        usage.cache_read_tokens,
        usage.cache_write_tokens,
        usage.cache_write_1h_tokens,
        usage.reasoning_tokens,
        usage.web_searches,
    ] {
        leb128::write(count, &mut out);
    }
    out
}

pub(crate) fn read_usage(mut bytes: &[u8]) -> Result<Usage> {
    let mut next = || leb128::read(&mut bytes).ok_or_else(damaged);
    Ok(Usage {
        input_tokens: next()?,
        output_tokens: next()?,
        cache_read_tokens: next()?,
        cache_write_tokens: next()?,
        cache_write_1h_tokens: next()?,
        reasoning_tokens: next()?,
        web_searches: next()?,
    })
}

/// Levels first, then the root.
pub(crate) fn write_rope(rope: &Rope) -> Vec<u8> {
    let mut out = Vec::with_capacity(rope.root.len() + 1);
    out.push(rope.levels);
    out.extend_from_slice(&rope.root);
    out
}

pub(crate) fn read_rope(bytes: &[u8]) -> Result<Rope> {
    let (levels, root) = bytes.split_first().ok_or_else(damaged)?;
    Ok(Rope {
        levels: *levels,
        root: root.to_vec(),
    })
}

/// File, line (with the beginning of a log behind `@`), uuid (or nothing) and aliases, separated by NUL, which none of them can
/// contain.
pub(crate) fn write_provenance(provenance: &Provenance) -> String {
    let mut fields = vec![provenance.file.as_str()];
    let begun = provenance.log_begun.map(|at| format!("@{}", at.0));
    let line = format!("{}{}", provenance.line, begun.unwrap_or_default());
    fields.push(&line);
    fields.push(provenance.uuid.as_deref().unwrap_or_default());
    fields.extend(provenance.aliases.iter().map(String::as_str));
    let clean: Vec<String> = fields.iter().map(|field| field.replace('\0', "")).collect();
    clean.join("\0")
}

pub(crate) fn read_provenance(text: &str) -> Result<Provenance> {
    let mut fields = text.split('\0').map(str::to_owned);
    let mut next = || fields.next().ok_or_else(damaged);
    let (file, line) = (next()?, next()?);
    let (line, begun) = line
        .split_once('@')
        .map_or((&*line, None), |(line, at)| (line, Some(at)));
    let begun = begun.map(str::parse).transpose().map_err(|_| damaged())?;
    Ok(Provenance {
        file,
        line: line.parse().map_err(|_| damaged())?,
        log_begun: begun.map(Micros),
        uuid: Some(next()?).filter(|uuid| !uuid.is_empty()),
        aliases: fields.collect(),
    })
}

/// All of a record but its session and uuid, which are columns of their own.
pub(crate) fn write_record(record: &RecordRow) -> Vec<u8> {
    let mut out = vec![place_in(&RecordKind::ALL, record.kind), u8::from(record.is_sidechain)];
    let texts = [
        &record.parent,
        &record.agent,
        &record.message,
        &record.tool_use,
        &record.stands_for,
        &record.text,
    ];
    for text in texts.into_iter().map(Option::as_deref).chain([Some(&*record.file)]) {
        // One more than the length, so that an empty text is another than none.
        leb128::write(text.map_or(0, |text| text.len() as u64 + 1), &mut out);
        out.extend(text.unwrap_or_default().as_bytes());
    }
    leb128::write(record.line, &mut out);
    out.push(u8::from(record.at.is_some()) | u8::from(record.node.is_some()) << 1);
    if let Some(at) = record.at {
        out.extend(at.0.to_be_bytes());
    }
    if let Some(node) = record.node {
        out.extend(node.0);
    }
    out
}

pub(crate) fn read_record(session: String, uuid: String, bytes: &[u8]) -> Result<RecordRow> {
    let [kind, is_sidechain, rest @ ..] = bytes else {
        return Err(damaged());
    };
    let mut rest = rest;
    let mut texts: [Option<String>; 7] = Default::default();
    for text in &mut texts {
        let Some(length) = leb128::read(&mut rest).ok_or_else(damaged)?.checked_sub(1) else {
            continue;
        };
        let (bytes, behind) = rest.split_at_checked(length as usize).ok_or_else(damaged)?;
        *text = Some(String::from_utf8(bytes.to_vec()).map_err(|_| damaged())?);
        rest = behind;
    }
    let [parent, agent, message, tool_use, stands_for, text, file] = texts;
    let line = leb128::read(&mut rest).ok_or_else(damaged)?;
    let (present, mut rest) = rest.split_first().ok_or_else(damaged)?;
    let mut at = None;
    if present & 1 != 0 {
        let (bytes, behind) = rest.split_first_chunk().ok_or_else(damaged)?;
        at = Some(Micros(i64::from_be_bytes(*bytes)));
        rest = behind;
    }
    let node = match present & 2 {
        0 => None,
        _ => Some(NodeHash(*rest.first_chunk().ok_or_else(damaged)?)),
    };
    Ok(RecordRow {
        session,
        uuid,
        parent,
        kind: *RecordKind::ALL.get(usize::from(*kind)).ok_or_else(damaged)?,
        is_sidechain: *is_sidechain != 0,
        at,
        agent,
        message,
        node,
        tool_use,
        stands_for,
        text,
        file: file.ok_or_else(damaged)?,
        line,
    })
}

fn damaged() -> StoreError {
    StoreError::Damaged("a packed column ends too early".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_survive_packing() {
        let hashes = vec![(HashKind::System, vec![1, 2]), (HashKind::Path, vec![9; 32])];
        assert_eq!(read_hashes(&write_hashes(&hashes, |_| true)).unwrap(), hashes);
        assert_eq!(
            read_hashes(&write_hashes(&hashes, HashKind::is_of_context)).unwrap(),
            hashes[..1]
        );
        let whole = Key {
            kind: KeyKind::Summary,
            hash: [7; 32],
        };
        let keys = vec![Key::short(KeyKind::Reuse, [7; 32]), whole];
        let written = write_keys(&keys);
        assert_eq!((written.len(), read_keys(&written).unwrap()), (17 + 33, keys));
        let usage = Usage {
            input_tokens: 1,
            web_searches: u64::MAX,
            ..Usage::default()
        };
        assert_eq!(read_usage(&write_usage(&usage)).unwrap(), usage);
        for log_begun in [None, Some(Micros(-5))] {
            let provenance = Provenance {
                file: "a.jsonl".to_owned(),
                line: 7,
                uuid: None,
                aliases: vec!["x".to_owned(), "y".to_owned()],
                log_begun,
            };
            assert_eq!(read_provenance(&write_provenance(&provenance)).unwrap(), provenance);
        }
    }

    #[test]
    fn a_record_survives_packing() {
        let mut record = RecordRow {
            session: "s".to_owned(),
            uuid: "u".to_owned(),
            parent: Some(String::new()),
            kind: RecordKind::Absorbed,
            is_sidechain: true,
            at: Some(Micros(-1)),
            agent: None,
            message: Some("msg_1".to_owned()),
            node: Some(NodeHash([7; 32])),
            tool_use: None,
            stands_for: Some("é".to_owned()),
            text: None,
            file: "f".to_owned(),
            line: 300,
        };
        let again = |record: &RecordRow| read_record("s".to_owned(), "u".to_owned(), &write_record(record));
        assert_eq!(again(&record).unwrap(), record);
        (record.at, record.node) = (None, None);
        assert_eq!(again(&record).unwrap(), record);
        let bytes = write_record(&record);
        for end in 0..bytes.len() {
            assert!(
                read_record(String::new(), String::new(), &bytes[..end]).is_err(),
                "{end}"
            );
        }
    }

    #[test]
    fn damaged_lists_are_errors() {
        assert!(read_hashes(&[0, 9, 1]).is_err());
        assert!(read_keys(&[1, 2, 3]).is_err());
        assert!(read_usage(&[0x80]).is_err());
        assert!(status_of(99).is_err() && source_of(-1).is_err() && link_kind_of(4).is_err());
    }
}
