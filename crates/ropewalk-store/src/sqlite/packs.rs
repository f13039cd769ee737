//! Parts in packs: what was said about the same time, compressed together.
//!
//! Parts are a few hundred bytes each; alone they compress badly, and a row for each would add a tenth. So an owner's parts
//! of consecutive numbers lie in one row. A part's number says where it is: a pack is stored under the number of its
//! first part. How packs come to be is in `tail`.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ropewalk_core::leb128;

use rusqlite::{Connection, OptionalExtension as _, params};

use crate::codec::{Codec, Packer, Unpacker};
use crate::facts::OwnerId;
use crate::sqlite::keys::{key, keys_of, number};
use crate::sqlite::problem;
use crate::store::{Result, StoreError};

/// A pack is full at so many bytes of parts. Twice as many compress 3 % better, but one part is read by unpacking its pack.
pub(super) const PACK_BYTES_MAX: usize = 256 << 10;

/// Longest pack that is read: a part of its own may be long, but damaged lengths must not ask for all memory.
const READ_BYTES_MAX: usize = 1 << 30;

/// Parts of consecutive numbers, unpacked.
#[derive(Debug, Default)]
pub(super) struct Pack {
    first: i64,
    /// Where each part ends.
    ends: Vec<usize>,
    bytes: Vec<u8>,
    /// Places of parts that were removed: their numbers stay, and name nothing.
    gone: BTreeSet<usize>,
}

impl Pack {
    /// An empty pack whose first part will have that number.
    pub(super) fn starting_at(first: i64) -> Self {
        Pack {
            first,
            ..Pack::default()
        }
    }

    pub(super) fn part(&self, number: i64) -> Option<&[u8]> {
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        let end = *self.ends.get(index)?;
        if self.gone.contains(&index) {
            return None;
        }
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        self.bytes.get(start..end)
    }

    /// The numbers of the parts in it.
    pub(super) fn numbers(&self) -> std::ops::Range<i64> {
        self.first..self.first + self.ends.len() as i64
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Bytes of all its parts.
    pub(super) fn length(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn push(&mut self, part: &[u8]) {
        // Most packs become full, and growing step by step touches twice the memory.
        if self.bytes.capacity() == 0 {
            self.bytes.reserve(PACK_BYTES_MAX);
        }
        self.bytes.extend_from_slice(part);
        self.ends.push(self.bytes.len());
    }

    fn lengths(&self) -> Vec<u8> {
        let mut lengths = Vec::with_capacity(self.ends.len() * 2);
        let mut start = 0;
        for end in &self.ends {
            leb128::write((end - start) as u64, &mut lengths);
            start = *end;
        }
        lengths
    }

    /// The same numbers, without these parts.
    pub(super) fn without(&self, is_gone: impl Fn(i64) -> bool) -> Self {
        let mut left = Pack::starting_at(self.first);
        for number in self.numbers() {
            match self.part(number).filter(|_| !is_gone(number)) {
                Some(part) => left.push(part),
                None => {
                    left.gone.insert(left.ends.len());
                    left.push(&[]);
                }
            }
        }
        left
    }

    /// Steps from one place to the next, `None` where nothing is gone.
    fn write_gone(&self) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        let mut last = 0;
        for place in &self.gone {
            leb128::write((place - last) as u64, &mut out);
            last = *place;
        }
        (!out.is_empty()).then_some(out)
    }

    /// Adds the parts of the pack behind this one.
    pub(super) fn append(&mut self, behind: &Pack) {
        let before = self.bytes.len();
        let places = self.ends.len();
        self.gone.extend(behind.gone.iter().map(|place| places + place));
        self.bytes.extend_from_slice(&behind.bytes);
        self.ends.extend(behind.ends.iter().map(|end| before + end));
    }

    /// Stores the parts as they are; gives the size.
    pub(super) fn save(&self, connection: &Connection, owner: OwnerId) -> Result<i64> {
        self.insert(connection, owner, Codec::Plain, &self.bytes)
    }

    /// Stores the parts compressed together; gives the size.
    pub(super) fn save_packed(&self, connection: &Connection, owner: OwnerId, packer: &mut Packer) -> Result<i64> {
        let (codec, packed) = packer.pack_tightly(&self.bytes).map_err(cannot_pack)?;
        self.insert(connection, owner, codec, &packed)
    }

    /// Of all its parts, one behind the other.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Stores its parts in that form; gives the size.
    pub(super) fn insert(&self, connection: &Connection, owner: OwnerId, codec: Codec, bytes: &[u8]) -> Result<i64> {
        let insert = "INSERT INTO pack (key, owner_id, lengths, codec, bytes, gone) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        let mut statement = connection.prepare_cached(insert).map_err(problem)?;
        let row = params![
            key(owner, self.first),
            owner.0,
            self.lengths(),
            codec.code(),
            bytes,
            self.write_gone()
        ];
        statement.execute(row).map_err(problem)?;
        Ok(bytes.len() as i64)
    }
}

/// A pack as it is stored.
#[derive(Debug)]
pub(super) struct StoredPack {
    pub(super) first: i64,
    lengths: Vec<u8>,
    codec: i64,
    bytes: Vec<u8>,
    gone: Option<Vec<u8>>,
}

impl StoredPack {
    /// The pack that has this part, or would have it if it were there.
    pub(super) fn find(connection: &Connection, owner: OwnerId, part: i64) -> Result<Option<Self>> {
        let select = "SELECT key, lengths, codec, bytes, gone FROM pack WHERE owner_id = ?1 AND key >= ?2 AND key <= ?3 \
                      ORDER BY key DESC LIMIT 1";
        let mut statement = connection.prepare_cached(select).map_err(problem)?;
        let range = params![owner.0, keys_of(owner).start, key(owner, part)];
        let found = statement.query_row(range, |row| {
            Ok(StoredPack {
                first: number(row.get(0)?),
                lengths: row.get(1)?,
                codec: row.get(2)?,
                bytes: row.get(3)?,
                gone: row.get(4)?,
            })
        });
        found.optional().map_err(problem)
    }

    pub(super) fn unpack(&self, unpacker: &mut Unpacker) -> Result<Pack> {
        let damaged = |what: &str| StoreError::Damaged(format!("pack {}: {what}", self.first));
        let mut pack = Pack::starting_at(self.first);
        pack.ends = read_ends(self.first, &self.lengths)?;
        let end = pack.ends.last().copied().unwrap_or_default();
        let codec = Codec::of_code(self.codec).ok_or_else(|| damaged("its codec is unknown"))?;
        let unpacked = unpacker.unpack(codec, &self.bytes, end);
        pack.bytes = unpacked.map_err(|error| damaged(&error.to_string()))?;
        pack.gone = read_gone(self.first, self.gone.as_deref())?;
        Ok(pack)
    }
}

/// Where each part of a pack ends.
pub(super) fn read_ends(first: i64, lengths: &[u8]) -> Result<Vec<usize>> {
    let damaged = || StoreError::Damaged(format!("pack {first}: its lengths cannot be read"));
    let (mut rest, mut end) = (lengths, 0_usize);
    let mut ends = Vec::with_capacity(lengths.len());
    while !rest.is_empty() {
        let length = leb128::read(&mut rest).and_then(|length| usize::try_from(length).ok());
        let next = length.and_then(|length| end.checked_add(length));
        end = next.filter(|next| *next <= READ_BYTES_MAX).ok_or_else(damaged)?;
        ends.push(end);
    }
    Ok(ends)
}

/// Places of a pack whose parts were removed.
pub(super) fn read_gone(first: i64, gone: Option<&[u8]>) -> Result<BTreeSet<usize>> {
    let damaged = || StoreError::Damaged(format!("pack {first}: what is gone of it cannot be read"));
    let (mut rest, mut place) = (gone.unwrap_or_default(), 0_usize);
    let mut places = BTreeSet::new();
    while !rest.is_empty() {
        let step = leb128::read(&mut rest).and_then(|step| usize::try_from(step).ok());
        place = step.and_then(|step| place.checked_add(step)).ok_or_else(damaged)?;
        places.insert(place);
    }
    Ok(places)
}

/// Bytes of all parts of a stored pack.
pub(super) fn length_of(first: i64, lengths: &[u8]) -> Result<usize> {
    let ends = read_ends(first, lengths)?;
    Ok(ends.last().copied().unwrap_or_default())
}

/// Packs that are kept unpacked while many parts are read.
const KEPT_MAX: usize = 16;

/// Parts of one owner, read pack by pack.
#[derive(Debug, Default)]
pub(super) struct PackReader {
    unpacker: Unpacker,
    /// The one used last is at the end.
    kept: Vec<Pack>,
}

impl PackReader {
    pub(super) fn part(&mut self, connection: &Connection, owner: OwnerId, number: i64) -> Result<&[u8]> {
        let missing = || StoreError::Damaged(format!("part {number} is not there"));
        let known = self.kept.iter().rposition(|pack| pack.numbers().contains(&number));
        let pack = match known {
            Some(place) => self.kept.remove(place),
            None => {
                let stored = StoredPack::find(connection, owner, number)?.ok_or_else(missing)?;
                if self.kept.len() >= KEPT_MAX {
                    self.kept.remove(0);
                }
                stored.unpack(&mut self.unpacker)?
            }
        };
        self.kept.push(pack);
        let part = self.kept.last().and_then(|pack| pack.part(number));
        part.ok_or_else(missing)
    }
}

/// Bytes of packs that readers keep unpacked between questions. Many conversations run at the same time, and each asks for what it
/// said last.
const SHARED_BYTES_MAX: usize = 16 << 20;

/// Bytes of details that readers keep, in each of two generations. Those that a link has to choose from lie in as many packs, so that
/// unpacking took a third of the time of linking.
const DETAIL_BYTES_MAX: usize = 8 << 20;

/// What a detail takes in memory beside its text.
const DETAIL_BYTES: usize = 64;

/// Packs unpacked for everybody who reads the same store. What a part says never changes, so a pack that has one has it as long as anybody
/// names it; a pack that grew since is read again for its new parts.
#[derive(Debug, Default)]
pub(super) struct SharedPacks {
    kept: Mutex<KeptPacks>,
    details: Mutex<KeptDetails>,
    /// Making one costs as much as unpacking a small pack.
    unpackers: Mutex<Vec<Unpacker>>,
}

#[derive(Debug, Default)]
struct KeptPacks {
    /// The one used last is at the end.
    packs: Vec<(OwnerId, Arc<Pack>)>,
}

/// What was used lately is in the young generation. When that is full, it becomes the old one.
#[derive(Debug, Default)]
struct KeptDetails {
    young: HashMap<(OwnerId, i64), Arc<str>>,
    old: HashMap<(OwnerId, i64), Arc<str>>,
    young_bytes: usize,
}

impl KeptDetails {
    fn find(&mut self, key: (OwnerId, i64)) -> Option<Arc<str>> {
        if let Some(detail) = self.young.get(&key) {
            return Some(Arc::clone(detail));
        }
        let detail = self.old.remove(&key)?;
        self.keep(key, Arc::clone(&detail));
        Some(detail)
    }

    fn keep(&mut self, key: (OwnerId, i64), detail: Arc<str>) {
        let bytes = detail.len() + DETAIL_BYTES;
        if self.young_bytes + bytes > DETAIL_BYTES_MAX {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
        self.young_bytes += bytes;
        self.young.insert(key, detail);
    }
}

impl SharedPacks {
    /// The detail of an exchange, which is a part.
    pub(super) fn detail(&self, connection: &Connection, owner: OwnerId, number: i64) -> Result<Arc<str>> {
        let key = (owner, number);
        if let Some(detail) = self.details().find(key) {
            return Ok(detail);
        }
        let pack = self.with_part(connection, owner, number)?;
        let bytes = pack.part(number).unwrap_or_default();
        let text = str::from_utf8(bytes).map_err(|_| not_a_text())?;
        let detail: Arc<str> = text.into();
        self.details().keep(key, Arc::clone(&detail));
        Ok(detail)
    }

    /// The pack that has a part.
    pub(super) fn with_part(&self, connection: &Connection, owner: OwnerId, number: i64) -> Result<Arc<Pack>> {
        if let Some(pack) = self.kept().find(owner, number) {
            return Ok(pack);
        }
        let missing = || StoreError::Damaged(format!("part {number} is not there"));
        let stored = StoredPack::find(connection, owner, number)?.ok_or_else(missing)?;
        let mut unpacker = self.unpackers().pop().unwrap_or_default();
        let pack = Arc::new(stored.unpack(&mut unpacker)?);
        self.unpackers().push(unpacker);
        self.kept().keep(owner, Arc::clone(&pack));
        Ok(pack)
    }

    fn kept(&self) -> MutexGuard<'_, KeptPacks> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn details(&self) -> MutexGuard<'_, KeptDetails> {
        self.details.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unpackers(&self) -> MutexGuard<'_, Vec<Unpacker>> {
        self.unpackers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KeptPacks {
    fn find(&mut self, owner: OwnerId, number: i64) -> Option<Arc<Pack>> {
        let has_it = |(of, pack): &(OwnerId, Arc<Pack>)| *of == owner && pack.numbers().contains(&number);
        let place = self.packs.iter().rposition(has_it)?;
        let used = self.packs.remove(place);
        let pack = Arc::clone(&used.1);
        self.packs.push(used);
        Some(pack)
    }

    fn keep(&mut self, owner: OwnerId, pack: Arc<Pack>) {
        self.packs
            .retain(|(of, other)| *of != owner || other.first != pack.first);
        self.packs.push((owner, pack));
        let mut bytes: usize = self.packs.iter().map(|(_, pack)| pack.length()).sum();
        let mut too_old = 0;
        while bytes > SHARED_BYTES_MAX && too_old + 1 < self.packs.len() {
            bytes -= self.packs[too_old].1.length();
            too_old += 1;
        }
        self.packs.drain(..too_old);
    }
}

/// The detail of an exchange is always one.
pub(super) fn not_a_text() -> StoreError {
    StoreError::Damaged("the detail of an exchange is no text".to_owned())
}

pub(super) fn cannot_pack(error: std::io::Error) -> StoreError {
    StoreError::Database {
        what: "parts cannot be compressed".to_owned(),
        source: error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_come_out_of_a_pack_by_their_numbers() {
        let mut pack = Pack::starting_at(7);
        let parts = [&b"one"[..], b"", &[1; 300], b"four"];
        parts.iter().for_each(|part| pack.push(part));
        let stored = StoredPack {
            first: 7,
            lengths: pack.lengths(),
            codec: Codec::Plain.code(),
            bytes: pack.bytes,
            gone: None,
        };
        let again = stored.unpack(&mut Unpacker::default()).unwrap();
        assert_eq!(again.numbers(), 7..11);
        for (number, part) in (7..).zip(parts) {
            assert_eq!(again.part(number), Some(part));
        }
        assert_eq!(
            (again.part(6), again.part(11), again.part(i64::MIN)),
            (None, None, None)
        );
    }

    #[test]
    fn a_pack_takes_the_parts_of_the_one_behind_it() {
        let mut pack = Pack::starting_at(3);
        pack.push(b"three");
        let mut behind = Pack::starting_at(4);
        behind.push(b"");
        behind.push(b"five");
        pack.append(&behind);
        assert_eq!((pack.numbers(), pack.length()), (3..6, 9));
        assert_eq!(
            (pack.part(3), pack.part(4), pack.part(5)),
            (Some(&b"three"[..]), Some(&b""[..]), Some(&b"five"[..]))
        );
    }

    #[test]
    fn a_part_that_is_gone_leaves_its_number_and_nothing_else() {
        let mut pack = Pack::starting_at(3);
        [&b"three"[..], b"four", b"five"]
            .iter()
            .for_each(|part| pack.push(part));
        let mut left = pack.without(|number| number == 4);
        assert_eq!(
            (left.part(3), left.part(4), left.part(5)),
            (Some(&b"three"[..]), None, Some(&b"five"[..]))
        );
        assert_eq!(left.length(), 9);
        let mut behind = Pack::starting_at(6);
        behind.push(b"six");
        left.append(&behind.without(|_| true));
        assert_eq!((left.part(6), left.numbers()), (None, 3..7));
        assert_eq!(read_gone(3, left.write_gone().as_deref()).unwrap(), left.gone);
    }

    #[test]
    fn damaged_lengths_are_an_error() {
        for lengths in [
            vec![0x80],
            vec![0xff; 10],
            [vec![0xff; 8], vec![0x7f]].concat(),
            vec![9],
        ] {
            let stored = StoredPack {
                first: 1,
                lengths,
                codec: Codec::Plain.code(),
                bytes: b"eight by".to_vec(),
                gone: None,
            };
            assert!(stored.unpack(&mut Unpacker::default()).is_err());
        }
    }
}
