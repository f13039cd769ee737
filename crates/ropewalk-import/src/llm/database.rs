//! A database that somebody else wrote, or made up.
//!
//! Nothing in it is run: triggers and views are off, its schema is not trusted, and only plain tables are read. Rows are read one by one,
//! and only after their size is known.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use rusqlite::config::DbConfig;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, OptionalExtension as _, Row, ToSql};

/// Most bytes of a row that is read: a prompt with its fragments, or a file.
pub(super) const ROW_BYTES_MAX: u64 = 64 << 20;

/// Most rows that belong to one row: attachments, calls, fragments.
pub(super) const BESIDE_MAX: usize = 10_000;

/// Everything else in a path has a meaning in a URI.
const KEPT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'/').remove(b'.').remove(b'-').remove(b'_');

#[derive(Debug)]
pub(super) struct Database {
    connection: Connection,
    /// Plain tables with their columns.
    tables: HashMap<String, HashSet<String>>,
    /// Changes that lie in a file beside it and could not be read.
    pub(super) misses_changes: bool,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum DatabaseError {
    #[error("no database that can be read: {0}")]
    Sqlite(#[from] rusqlite::Error),
    #[error("it has {0} bytes; {ROW_BYTES_MAX} is the most")]
    TooLong(u64),
    #[error("a message of it is not there")]
    NoMessage,
    #[error("its messages stand in a circle, or are too many")]
    Endless,
    #[error("more than {BESIDE_MAX} rows belong to it")]
    TooMany,
}

pub(super) type Result<T> = std::result::Result<T, DatabaseError>;

impl Database {
    /// Opens it for reading, beside whoever writes it. Where that cannot be (a medium that cannot be written, where a log needs its
    /// index file), it is read as something that nobody changes.
    pub(super) fn open(path: &Path) -> Result<Self> {
        match Self::open_as(path, false) {
            Ok(database) => Ok(database),
            Err(first) => match Self::open_as(path, true) {
                Ok(database) => Ok(Database {
                    misses_changes: log_size(path) > 0,
                    ..database
                }),
                Err(_) => Err(first),
            },
        }
    }

    fn open_as(path: &Path, is_immutable: bool) -> Result<Self> {
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let path = path.as_os_str().as_encoded_bytes();
        let path = percent_encode(path, KEPT);
        let immutable = if is_immutable { "&immutable=1" } else { "" };
        let uri = format!("file:{path}?mode=ro{immutable}");
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(uri, flags)?;
        for (setting, value) in [
            (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
            (DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false),
            (DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false),
            (DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false),
        ] {
            connection.set_db_config(setting, value)?;
        }
        connection.pragma_update(None, "cell_size_check", true)?;
        connection.pragma_update(None, "query_only", true)?;
        let mut database = Database {
            connection,
            tables: HashMap::new(),
            misses_changes: false,
        };
        database.tables = database.read_tables()?;
        Ok(database)
    }

    fn read_tables(&self) -> Result<HashMap<String, HashSet<String>>> {
        let select = "SELECT name FROM sqlite_schema WHERE type = 'table' AND rootpage > 0 AND name NOT LIKE 'sqlite_%' LIMIT 1000";
        let mut statement = self.connection.prepare(select)?;
        let names = statement.query_map([], |row| row.get::<_, String>(0))?;
        let mut tables = HashMap::new();
        for name in names.filter_map(std::result::Result::ok) {
            let mut statement = self
                .connection
                .prepare("SELECT name FROM pragma_table_xinfo(?1) WHERE hidden = 0")?;
            let columns = statement.query_map([&name], |row| row.get::<_, String>(0))?;
            tables.insert(name, columns.filter_map(std::result::Result::ok).collect());
        }
        Ok(tables)
    }

    pub(super) fn has(&self, table: &str, columns: &[&str]) -> bool {
        let known = self.tables.get(table);
        known.is_some_and(|known| columns.iter().all(|column| known.contains(*column)))
    }

    /// An expression for a column that older releases do not have.
    fn column(&self, table: &str, column: &str) -> String {
        match self.has(table, &[column]) {
            true => format!("t.\"{column}\""),
            false => "NULL".to_owned(),
        }
    }

    /// The numbers of a table's rows, in an order of ours.
    pub(super) fn row_numbers(&self, table: &str, order: &str) -> Result<Vec<i64>> {
        let mut statement = self
            .connection
            .prepare(&format!("SELECT rowid FROM \"{table}\" ORDER BY {order}"))?;
        let numbers = statement.query_map([], |row| row.get(0))?;
        Ok(numbers.collect::<std::result::Result<_, _>>()?)
    }

    /// One row, or nothing. `condition` is about `t`.
    pub(super) fn find(
        &self,
        table: &'static str,
        columns: &'static [&'static str],
        condition: &str,
        value: &dyn ToSql,
    ) -> Result<Option<Values>> {
        let mut rows = self.select(table, columns, condition, value, 1)?;
        Ok(rows.pop())
    }

    /// Rows that belong together, in the order that `condition` gives them.
    pub(super) fn beside(
        &self,
        table: &'static str,
        columns: &'static [&'static str],
        condition: &str,
        value: &dyn ToSql,
    ) -> Result<Vec<Values>> {
        if !self.tables.contains_key(table) {
            return Ok(Vec::new());
        }
        let rows = self.select(table, columns, condition, value, BESIDE_MAX + 1)?;
        if rows.len() > BESIDE_MAX {
            return Err(DatabaseError::TooMany);
        }
        Ok(rows)
    }

    fn select(
        &self,
        table: &'static str,
        columns: &'static [&'static str],
        condition: &str,
        value: &dyn ToSql,
        limit: usize,
    ) -> Result<Vec<Values>> {
        let expressions: Vec<String> = columns.iter().map(|column| self.column(table, column)).collect();
        let sizes: Vec<String> = expressions
            .iter()
            .map(|column| format!("coalesce(octet_length({column}), 0)"))
            .collect();
        let from = format!("FROM \"{table}\" t {condition} LIMIT {limit}");
        let sum = format!("SELECT sum(size) FROM (SELECT {} AS size {from})", sizes.join(" + "));
        let mut statement = self.connection.prepare_cached(&sum)?;
        let size: Option<i64> = statement.query_row([value], |row| row.get(0)).optional()?.flatten();
        let size = size.unwrap_or(0).unsigned_abs();
        if size > ROW_BYTES_MAX {
            return Err(DatabaseError::TooLong(size));
        }
        let select = format!("SELECT {} {from}", expressions.join(", "));
        let mut statement = self.connection.prepare_cached(&select)?;
        let rows = statement.query_map([value], |row| Values::read(columns, row))?;
        Ok(rows.collect::<std::result::Result<_, _>>()?)
    }
}

/// The size of the log beside a database.
fn log_size(path: &Path) -> u64 {
    let mut name = path.as_os_str().to_owned();
    name.push("-wal");
    fs::metadata(PathBuf::from(name)).map_or(0, |metadata| metadata.len())
}

/// A row, by the names of its columns. Any column may have any type.
#[derive(Debug)]
pub(super) struct Values {
    columns: &'static [&'static str],
    values: Vec<Value>,
}

#[derive(Debug)]
enum Value {
    Null,
    Number(i64),
    Text(String),
    Bytes(Vec<u8>),
}

impl Values {
    fn read(columns: &'static [&'static str], row: &Row<'_>) -> rusqlite::Result<Self> {
        let values = (0..columns.len()).map(|index| {
            Ok(match row.get_ref(index)? {
                ValueRef::Null => Value::Null,
                ValueRef::Integer(number) => Value::Number(number),
                ValueRef::Real(number) => Value::Number(number as i64),
                ValueRef::Text(text) => Value::Text(String::from_utf8_lossy(text).into_owned()),
                ValueRef::Blob(bytes) => Value::Bytes(bytes.to_vec()),
            })
        });
        Ok(Values {
            columns,
            values: values.collect::<rusqlite::Result<_>>()?,
        })
    }

    fn value(&self, column: &str) -> &Value {
        let place = self.columns.iter().position(|known| *known == column);
        place.and_then(|place| self.values.get(place)).unwrap_or(&Value::Null)
    }

    /// A text with something in it. Ids may be numbers in old files.
    pub(super) fn text(&self, column: &str) -> Option<String> {
        match self.value(column) {
            Value::Text(text) if !text.is_empty() => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        }
    }

    pub(super) fn number(&self, column: &str) -> Option<i64> {
        match self.value(column) {
            Value::Number(number) => Some(*number),
            Value::Text(text) => text.trim().parse().ok(),
            _ => None,
        }
    }

    pub(super) fn bytes(&self, column: &str) -> Option<&[u8]> {
        match self.value(column) {
            Value::Bytes(bytes) => Some(bytes),
            Value::Text(text) if !text.is_empty() => Some(text.as_bytes()),
            _ => None,
        }
    }
}
