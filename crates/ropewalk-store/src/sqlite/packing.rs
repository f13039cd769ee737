//! Full packs, compressed beside the writer.
//!
//! Compressing tightly takes longer than all other things that recording does with a part. A batch of many exchanges fills several packs:
//! while a thread compresses one, the writer goes on with the exchanges behind it, and stores the pack once it is done, in the
//! same transaction.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use rusqlite::Connection;

use crate::codec::{Codec, Packer};
use crate::facts::OwnerId;
use crate::sqlite::packs::{Pack, cannot_pack};
use crate::store::Result;

/// Packs of a batch that are not stored yet, with their parts in memory: a megabyte or two.
pub(super) const PACKING_MAX: usize = 8;

type Packed = io::Result<(Codec, Vec<u8>)>;

/// The thread, and the way to it. It ends with its last sender.
#[derive(Debug)]
pub(super) struct PackingThread {
    jobs: SyncSender<(Arc<Pack>, SyncSender<Packed>)>,
}

/// A pack that is on its way.
#[derive(Debug)]
pub(super) struct Packing {
    pack: Arc<Pack>,
    packed: Receiver<Packed>,
}

impl PackingThread {
    pub(super) fn start() -> Result<Self> {
        let (jobs, waiting) = sync_channel::<(Arc<Pack>, SyncSender<Packed>)>(PACKING_MAX);
        let mut packer = Packer::new().map_err(cannot_pack)?;
        let work = move || {
            while let Ok((pack, answer)) = waiting.recv() {
                // Nobody waits for it if the batch failed.
                let _ = answer.send(packer.pack_tightly(pack.bytes()));
            }
        };
        let thread = std::thread::Builder::new().name("ropewalk-packer".to_owned());
        thread.spawn(work).map_err(cannot_pack)?;
        Ok(PackingThread { jobs })
    }

    /// Begins to compress a pack.
    pub(super) fn pack(&self, pack: Pack) -> Packing {
        let pack = Arc::new(pack);
        let (answer, packed) = sync_channel(1);
        // A thread that is gone answers nothing, and the pack is compressed where it is waited for.
        let _ = self.jobs.send((Arc::clone(&pack), answer));
        Packing { pack, packed }
    }
}

impl Packing {
    pub(super) fn part(&self, number: i64) -> Option<&[u8]> {
        self.pack.part(number)
    }

    /// Waits for it and stores it; gives the size.
    pub(super) fn save(self, connection: &Connection, owner: OwnerId) -> Result<i64> {
        let here = |_| Packer::new()?.pack_tightly(self.pack.bytes());
        let (codec, bytes) = self.packed.recv().unwrap_or_else(here).map_err(cannot_pack)?;
        self.pack.insert(connection, owner, codec, &bytes)
    }
}
