//! `ropewalk restore`: a store out of a backup, checked before it is said to be there.

use std::fs::{self, File};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Component, Path};

use ropewalk_proxy::recorder::REJECTED_NAME;
use ropewalk_store::sqlite::FILE_NAME;
use ropewalk_store::store::{Depth, Severity};
use ropewalk_store::{Store as _, StoreError};

use super::backup::{JOURNAL, MANIFEST, Manifest, SECRET, STORE, VERSION, cannot, hashed, shown};
use super::drain::drain;
use crate::any_store::AnyStore;
use crate::audit;
use crate::cli::Restore;
use crate::config::Place;
use crate::context::Context;
use crate::failure::{Failure, Kind};
use crate::print::number::counted;
use crate::print::out::Out;

/// Longest manifest that is read.
const MANIFEST_BYTES_MAX: u64 = 64 << 20;

pub(crate) async fn run(context: &Context, arguments: &Restore) -> Result<(), Failure> {
    let data = context.config.data_folder()?.to_owned();
    refuse_what_is_there(context, &data).await?;
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&data)
        .map_err(|error| cannot("make", &data, &error))?;
    let work = tempfile::Builder::new().prefix(".ropewalk-restore-").tempdir_in(&data);
    let work = work.map_err(|error| cannot("write to", &data, &error))?;
    let manifest = unpack(&arguments.file, work.path())?;
    let engine = match &context.config.place {
        Place::Folder(_) => "sqlite",
        Place::Postgres(_) => "postgres",
    };
    if manifest.engine != engine {
        let message = format!(
            "the backup is of a store on {}, and this one is on {engine}",
            manifest.engine
        );
        return Err(Failure::new(Kind::Usage, message)
            .hint("`ropewalk export` and `ropewalk import` move exchanges from one to the other"));
    }
    let store = put_in_place(context, work.path(), &data).await?;
    drain(&context.config, &work.path().join(JOURNAL), &store).await?;
    let checked = check(&store).await?;
    let rejected = work.path().join(JOURNAL).join(REJECTED_NAME);
    if rejected.is_file() {
        let folder = context.config.serving.journal.folder(&data);
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder);
        let moved = made.and_then(|()| fs::rename(&rejected, folder.join(REJECTED_NAME)));
        moved.map_err(|error| cannot("write to", &folder, &error))?;
    }
    let detail = serde_json::json!({"exchanges": checked.exchanges, "owners": checked.owners});
    audit::note(&context.config, "restore", None, None, detail);
    let mut out = Out::new();
    match context.json {
        true => out.json(&serde_json::json!({
            "v": 1, "file": shown(&arguments.file), "made_at": manifest.made_at, "owners": checked.owners,
            "exchanges": checked.exchanges, "engine": manifest.engine,
        }))?,
        false => out.line(&format!(
            "restored {} of {}, as of {}; every checksum and every body was checked",
            counted(checked.exchanges, "exchange", "exchanges"),
            counted(checked.owners, "owner", "owners"),
            manifest.made_at,
        ))?,
    }
    out.finish()
}

async fn refuse_what_is_there(context: &Context, data: &Path) -> Result<(), Failure> {
    let refused = |what: &str| {
        Failure::new(
            Kind::Usage,
            format!("{what} is not empty, and restoring would overwrite it"),
        )
        .hint("restore into a new folder (--data DIR) or an empty database (--store URL)")
    };
    match &context.config.place {
        Place::Folder(folder) if folder.join(FILE_NAME).exists() => Err(refused(&shown(folder))),
        Place::Folder(_) => Ok(()),
        Place::Postgres(_) => match context.open_to_write().await? {
            AnyStore::Postgres(store) if !store.is_empty().await? => Err(refused("the database")),
            _ => {
                let journal = context.config.serving.journal.folder(data);
                let has_segments = fs::read_dir(&journal).is_ok_and(|mut entries| entries.next().is_some());
                if has_segments {
                    Err(refused(&shown(&journal)))
                } else {
                    Ok(())
                }
            }
        },
    }
}

/// Unpacks a backup into a folder; every file must be the one that the manifest lists.
fn unpack(file: &Path, into: &Path) -> Result<Manifest, Failure> {
    let broken = |what: String| {
        Failure::new(Kind::NotFound, format!("{} is no whole backup: {what}", shown(file))).hint("nothing was restored")
    };
    let opened = File::open(file).map_err(|error| cannot("read", file, &error))?;
    let decoder = zstd::Decoder::new(opened).map_err(|error| broken(error.to_string()))?;
    let mut archive = tar::Archive::new(decoder);
    let mut manifest: Option<Manifest> = None;
    let mut unpacked = 0;
    for entry in archive.entries().map_err(|error| broken(error.to_string()))? {
        let mut entry = entry.map_err(|error| broken(error.to_string()))?;
        let path = entry.path().map_err(|error| broken(error.to_string()))?.into_owned();
        let Some(manifest) = &manifest else {
            if path != Path::new(MANIFEST) || entry.size() > MANIFEST_BYTES_MAX {
                return Err(broken("it does not begin with a manifest".to_owned()));
            }
            let read: Manifest = serde_json::from_reader(&mut entry).map_err(|error| broken(error.to_string()))?;
            if read.v != VERSION {
                return Err(broken(format!(
                    "it is of version {}, and this program knows {VERSION}",
                    read.v
                )));
            }
            manifest = Some(read);
            continue;
        };
        // Only what is listed, and only below the folder.
        let is_inside = path.components().all(|part| matches!(part, Component::Normal(_)));
        let listed = manifest.files.iter().find(|listed| Path::new(&listed.name) == path);
        let (Some(listed), true) = (listed, is_inside) else {
            return Err(broken(format!("{} is not in its manifest", shown(&path))));
        };
        let to = into.join(&path);
        let written = (|| {
            if let Some(parent) = to.parent() {
                fs::create_dir_all(parent)?;
            }
            let mut options = fs::OpenOptions::new();
            let mut out = options.create_new(true).write(true).mode(0o600).open(&to)?;
            std::io::copy(&mut entry, &mut out)?;
            out.sync_all()?;
            hashed(&to)
        })();
        let (bytes, sha256) = written.map_err(|error| broken(error.to_string()))?;
        if (bytes, &sha256) != (listed.bytes, &listed.sha256) {
            return Err(broken(format!("{} is not what was backed up", shown(&path))));
        }
        unpacked += 1;
    }
    let manifest = manifest.ok_or_else(|| broken("it is empty".to_owned()))?;
    if unpacked != manifest.files.len() {
        return Err(broken(format!(
            "{unpacked} of {} files are in it",
            manifest.files.len()
        )));
    }
    Ok(manifest)
}

/// The store where it belongs, opened to be written.
async fn put_in_place(context: &Context, work: &Path, data: &Path) -> Result<AnyStore, Failure> {
    let folder = work.join(STORE);
    let secret = work.join(SECRET);
    let own = data.join(crate::secret::FILE_NAME);
    if secret.is_file() && !own.exists() {
        fs::rename(&secret, &own).map_err(|error| cannot("write", &own, &error))?;
    }
    match &context.config.place {
        Place::Folder(place) => {
            let (from, to) = (folder.join(FILE_NAME), place.join(FILE_NAME));
            fs::rename(&from, &to).map_err(|error| cannot("write", &to, &error))?;
            Ok(context.open_to_write().await?)
        }
        Place::Postgres(_) => {
            let store = context.open_to_write().await?;
            if let AnyStore::Postgres(store) = &store {
                store.fill_from(&folder).await?;
            }
            Ok(store)
        }
    }
}

struct Checked {
    owners: u64,
    exchanges: u64,
}

/// Reads everything.
async fn check(store: &AnyStore) -> Result<Checked, Failure> {
    let mut checked = Checked {
        owners: 0,
        exchanges: 0,
    };
    for (owner, name) in store.all_owners().await? {
        let findings = store.check(owner, Depth::Data).await?;
        if let Some(error) = findings.iter().find(|finding| finding.severity == Severity::Error) {
            let damaged = StoreError::Damaged(format!("{}: {}", name, error.what));
            return Err(Failure::from_error(Kind::NotFound, &damaged)
                .hint("the backup was made of a damaged store; `ropewalk fsck` there says more"));
        }
        checked.owners += 1;
        checked.exchanges += store.stats(owner).await?.exchanges;
    }
    Ok(checked)
}
