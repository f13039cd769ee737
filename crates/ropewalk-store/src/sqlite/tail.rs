//! The end of an owner's packs: what was recorded lately, in packs that are still small.
//!
//! A batch writes its new parts as they are, as a pack of their own behind the others. When those of the tail are full
//! together, they become one pack, compressed tightly: every part is compressed once, and a commit writes what is new.
//! Compressing the last pack anew with every batch took a seventh of the time of recording.
//!
//! Invariant: a pack that is not of the tail is, with the part behind it, longer than a pack may be. So nothing
//! says where the tail begins: it is as many of the last packs as fit into one, and a crash leaves no other tail than a
//! commit does.

use std::collections::VecDeque;

use rusqlite::{Connection, params};

use crate::codec::Unpacker;
use crate::facts::OwnerId;
use crate::sqlite::keys::{key, keys_of, number};
use crate::sqlite::packing::{PACKING_MAX, Packing};
use crate::sqlite::packs::{PACK_BYTES_MAX, Pack, StoredPack, length_of};
use crate::sqlite::problem;
use crate::sqlite::writer::Session;
use crate::store::{Result, StoreError};

/// Packs of a tail that are stored as one where it has more: they are looked at with every batch.
const PACKS_MAX: usize = 32;

/// The tail of an owner's packs, and what a batch adds to it.
#[derive(Debug)]
pub(super) struct Tail {
    owner: OwnerId,
    /// Full ones that are being compressed. They belong to the tail no more, but are not stored yet.
    packing: VecDeque<Packing>,
    stored: Vec<Small>,
    /// What is not stored yet.
    new: Pack,
    /// How many bytes more are stored than before the batch.
    grown: i64,
}

/// What is known of a stored pack without reading its parts.
#[derive(Debug)]
struct Small {
    first: i64,
    /// Of its parts, and of what is stored.
    length: usize,
    stored: i64,
}

impl Tail {
    /// The tail of an owner whose next part will have that number.
    pub(super) fn load(connection: &Connection, owner: OwnerId, next: i64) -> Result<Self> {
        let select = "SELECT key, lengths, length(bytes) FROM pack WHERE owner_id = ?1 AND key >= ?2 AND key < ?3 \
                      ORDER BY key DESC";
        let mut statement = connection.prepare_cached(select).map_err(problem)?;
        let range = params![owner.0, keys_of(owner).start, key(owner, next)];
        let mut rows = statement.query(range).map_err(problem)?;
        let (mut stored, mut length) = (Vec::new(), 0_usize);
        while let Some(row) = rows.next().map_err(problem)? {
            let first = number(row.get(0).map_err(problem)?);
            let lengths: Vec<u8> = row.get(1).map_err(problem)?;
            let small = Small {
                first,
                length: length_of(first, &lengths)?,
                stored: row.get(2).map_err(problem)?,
            };
            length = length.saturating_add(small.length);
            if length > PACK_BYTES_MAX {
                break;
            }
            stored.push(small);
        }
        stored.reverse();
        Ok(Tail {
            owner,
            packing: VecDeque::new(),
            stored,
            new: Pack::starting_at(next),
            grown: 0,
        })
    }

    /// A part that is not stored yet.
    pub(super) fn part(&self, number: i64) -> Option<&[u8]> {
        let packing = || self.packing.iter().rev().find_map(|packing| packing.part(number));
        self.new.part(number).or_else(packing)
    }

    /// Adds the next part. What it does not fit to is packed before.
    pub(super) fn push(&mut self, session: &mut Session, part: &[u8]) -> Result<()> {
        if self.length() + part.len() > PACK_BYTES_MAX {
            self.pack(session)?;
        }
        self.new.push(part);
        // Longer than a pack may be on its own: nothing will be added to it.
        if self.length() > PACK_BYTES_MAX {
            self.pack(session)?;
        }
        Ok(())
    }

    /// Stores what is new; gives how many bytes more are stored than before the batch.
    pub(super) fn save(mut self, session: &mut Session) -> Result<i64> {
        if self.stored.len() >= PACKS_MAX {
            self.pack(session)?;
        } else if !self.new.is_empty() {
            self.grown += self.new.save(session.connection(), self.owner)?;
        }
        self.save_packed(session, 0)?;
        Ok(self.grown)
    }

    /// Makes the tail one pack, for a clean end; gives how many bytes more are stored.
    pub(super) fn tidy(mut self, session: &mut Session) -> Result<i64> {
        self.pack(session)?;
        self.save_packed(session, 0)?;
        Ok(self.grown)
    }

    fn length(&self) -> usize {
        self.stored.iter().map(|small| small.length).sum::<usize>() + self.new.length()
    }

    /// Makes one pack of all of the tail and goes on behind it.
    fn pack(&mut self, session: &mut Session) -> Result<()> {
        let next = self.new.numbers().end;
        let new = std::mem::replace(&mut self.new, Pack::starting_at(next));
        let small = std::mem::take(&mut self.stored);
        let first = small.first().map_or(new.numbers().start, |small| small.first);
        let mut whole = Pack::starting_at(first);
        let mut unpacker = Unpacker::default();
        for small in &small {
            let stored = StoredPack::find(session.connection(), self.owner, small.first)?;
            let missing = || StoreError::Damaged(format!("pack {} is not there", small.first));
            whole.append(&stored.ok_or_else(missing)?.unpack(&mut unpacker)?);
        }
        whole.append(&new);
        if whole.is_empty() {
            return Ok(());
        }
        // Removed first, so that the new pack takes the pages of the small ones.
        let connection = session.connection();
        let delete = "DELETE FROM pack WHERE owner_id = ?1 AND key >= ?2 AND key < ?3";
        let mut statement = connection.prepare_cached(delete).map_err(problem)?;
        let range = params![self.owner.0, key(self.owner, first), key(self.owner, next)];
        statement.execute(range).map_err(problem)?;
        drop(statement);
        self.grown -= small.iter().map(|small| small.stored).sum::<i64>();
        let packing = session.packing()?.pack(whole);
        self.packing.push_back(packing);
        self.save_packed(session, PACKING_MAX)
    }

    /// Stores packs that are compressed, until so many are left.
    fn save_packed(&mut self, session: &Session, left: usize) -> Result<()> {
        while self.packing.len() > left
            && let Some(packing) = self.packing.pop_front()
        {
            self.grown += packing.save(session.connection(), self.owner)?;
        }
        Ok(())
    }
}
