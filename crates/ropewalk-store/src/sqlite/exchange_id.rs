//! Ids of exchanges as they are stored. Most are UUIDs, which take 16 bytes instead of 36 characters.

use rusqlite::ToSql;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSqlOutput, ValueRef};

/// Lengths of a UUID's groups of digits.
const GROUPS: [usize; 5] = [8, 4, 4, 4, 12];

/// An id on its way into or out of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ExchangeId(pub(super) String);

impl ToSql for ExchangeId {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match uuid_bytes(&self.0) {
            Some(bytes) => ToSqlOutput::from(bytes.to_vec()),
            None => ToSqlOutput::from(self.0.as_str()),
        })
    }
}

impl FromSql for ExchangeId {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        if let ValueRef::Blob(bytes) = value {
            let bytes: &[u8; 16] = bytes.try_into().map_err(|_| FromSqlError::InvalidType)?;
            return Ok(ExchangeId(uuid_text(bytes)));
        }
        value.as_str().map(|text| ExchangeId(text.to_owned()))
    }
}

/// The bytes of a UUID that is written as [`uuid_text`] writes it.
fn uuid_bytes(id: &str) -> Option<[u8; 16]> {
    let mut bytes = [0; 16];
    hex::decode_to_slice(id.replace('-', ""), &mut bytes).ok()?;
    (uuid_text(&bytes) == id).then_some(bytes)
}

/// Lower case, in groups.
fn uuid_text(bytes: &[u8; 16]) -> String {
    let digits = hex::encode(bytes);
    let mut rest = digits.as_str();
    let groups = GROUPS.map(|length| {
        let (group, behind) = rest.split_at(length);
        rest = behind;
        group
    });
    groups.join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_uuid_in_its_usual_form_is_shortened() {
        let id = "0198c0de-0000-7000-8000-0123456789ab";
        assert_eq!(uuid_text(&uuid_bytes(id).unwrap()), id);
        for other in [
            "",
            "x",
            "0198C0DE-0000-7000-8000-0123456789AB",
            "0198c0de000070008000012345678 9ab",
            "0198c0de0000700080000123456789ab",
            "0198c0de-00007000-8000-0123-456789ab",
            "€98c0de-0000-7000-8000-0123456789ab",
        ] {
            assert_eq!(uuid_bytes(other), None, "{other}");
        }
    }
}
