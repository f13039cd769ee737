//! `ropewalk backup`: everything in one file, also while a server records.
//!
//! The file is a compressed tar. Its first entry is a manifest with the hash of every other, then comes the journal, then the store. The journal
//! is copied first: what is in it and not in the copied store is recorded when the copy is restored, what left it meanwhile is in
//! the store.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use ropewalk_proxy::journal::LOCK_NAME;
use ropewalk_proxy::recorder::POSITION_NAME;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::any_store::AnyStore;
use crate::cli::Backup;
use crate::context::Context;
use crate::failure::{Failure, Kind};
use crate::print::number::bytes;
use crate::print::out::Out;
use crate::print::text::one_line;

/// Changed when an older program could not read what a newer one writes.
pub(super) const VERSION: u32 = 1;
pub(super) const MANIFEST: &str = "manifest.json";
pub(super) const STORE: &str = "store";
pub(super) const JOURNAL: &str = "journal";
/// The key of the installation, which tells equal secrets from others.
pub(super) const SECRET: &str = "secret";

/// Tight enough for texts that are compressed already.
const LEVEL: i32 = 3;

/// What a backup is, and what is in it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Manifest {
    pub(super) v: u32,
    pub(super) made_at: String,
    pub(super) made_by: String,
    /// `sqlite` or `postgres`.
    pub(super) engine: String,
    pub(super) schema: u32,
    pub(super) files: Vec<Listed>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Listed {
    pub(super) name: String,
    pub(super) bytes: u64,
    pub(super) sha256: String,
}

pub(crate) async fn run(context: &Context, arguments: &Backup) -> Result<(), Failure> {
    let file = &arguments.file;
    if file.exists() {
        return Err(Failure::new(Kind::Usage, format!("{} is there already", shown(file)))
            .hint("a backup never takes the place of another; choose a new name"));
    }
    let Some(store) = context.read_now().await? else {
        return Err(
            Failure::new(Kind::NotFound, "nothing is recorded, so there is nothing to back up")
                .hint("`ropewalk config --show data` says where was looked"),
        );
    };
    let beside = file
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    // On the same disk as what is made of it, and readable for nobody else.
    let work = tempfile::Builder::new().prefix(".ropewalk-backup-").tempdir_in(beside);
    let work = work.map_err(|error| cannot("write to", beside, &error))?;
    let data = context.config.data_folder()?;
    copy_journal(&context.config.serving.journal.folder(data), &work.path().join(JOURNAL))?;
    let (engine, schema) = copy_store(&store, &work.path().join(STORE)).await?;
    let secret = data.join(crate::secret::FILE_NAME);
    if secret.is_file() {
        fs::copy(&secret, work.path().join(SECRET)).map_err(|error| cannot("read", &secret, &error))?;
    }
    let manifest = Manifest {
        v: VERSION,
        made_at: jiff::Timestamp::now().to_string(),
        made_by: env!("CARGO_PKG_VERSION").to_owned(),
        engine: engine.to_owned(),
        schema,
        files: listed(work.path())?,
    };
    let draft = work.path().join("backup.tar.zst");
    pack(work.path(), &manifest, &draft).map_err(|error| cannot("write", file, &error))?;
    // All of it is there under its name, or nothing.
    fs::rename(&draft, file).map_err(|error| cannot("write", file, &error))?;
    let size = fs::metadata(file).map_or(0, |found| found.len());
    let mut out = Out::new();
    match context.json {
        true => out.json(&serde_json::json!({
            "v": 1, "file": shown(file), "bytes": size, "engine": manifest.engine, "schema": manifest.schema,
            "made_at": manifest.made_at, "files": manifest.files.len(),
        }))?,
        false => out.line(&format!(
            "{} ({}), made at {}",
            shown(file),
            bytes(size),
            manifest.made_at
        ))?,
    }
    out.finish()
}

pub(super) fn shown(path: &Path) -> String {
    one_line(&path.display().to_string())
}

pub(super) fn cannot(verb: &str, path: &Path, error: &io::Error) -> Failure {
    Failure::new(Kind::Internal, format!("cannot {verb} {}: {error}", shown(path)))
}

/// Segments of the journal, as far as they are written. One that goes meanwhile is recorded.
fn copy_journal(from: &Path, to: &Path) -> Result<(), Failure> {
    fs::create_dir(to).map_err(|error| cannot("make", to, &error))?;
    let Ok(entries) = fs::read_dir(from) else {
        return Ok(());
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        if name == LOCK_NAME || name == POSITION_NAME {
            continue;
        }
        match fs::copy(entry.path(), to.join(&name)) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(cannot("read", &entry.path(), &error)),
        }
    }
    Ok(())
}

async fn copy_store(store: &AnyStore, to: &Path) -> Result<(&'static str, u32), Failure> {
    fs::create_dir(to).map_err(|error| cannot("make", to, &error))?;
    match store {
        AnyStore::Sqlite(store) => {
            store.copy_to(&to.join(ropewalk_store::sqlite::FILE_NAME)).await?;
            Ok(("sqlite", store.schema_version().await?))
        }
        AnyStore::Postgres(store) => {
            store.copy_to(to).await?;
            Ok(("postgres", store.schema_version().await?))
        }
        AnyStore::SqliteThen(_) | AnyStore::PostgresThen(_) => {
            Err(Failure::new(Kind::Usage, "a backup is of what is there now"))
        }
    }
}

/// Every file below a folder, in order, with its hash.
fn listed(folder: &Path) -> Result<Vec<Listed>, Failure> {
    let mut files = Vec::new();
    for path in paths(folder).map_err(|error| cannot("read", folder, &error))? {
        let (bytes, sha256) = hashed(&folder.join(&path)).map_err(|error| cannot("read", &path, &error))?;
        let name = path.to_string_lossy().into_owned();
        files.push(Listed { name, bytes, sha256 });
    }
    Ok(files)
}

pub(super) fn paths(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for part in [JOURNAL, STORE] {
        let Ok(entries) = fs::read_dir(folder.join(part)) else {
            continue;
        };
        for entry in entries {
            found.push(Path::new(part).join(entry?.file_name()));
        }
    }
    if folder.join(SECRET).is_file() {
        found.push(PathBuf::from(SECRET));
    }
    found.sort();
    Ok(found)
}

pub(super) fn hashed(file: &Path) -> io::Result<(u64, String)> {
    let mut file = File::open(file)?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 256 << 10];
    let mut length = 0;
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            return Ok((length, hex::encode(hash.finalize())));
        }
        hash.update(&buffer[..read]);
        length += read as u64;
    }
}

fn pack(folder: &Path, manifest: &Manifest, to: &Path) -> io::Result<()> {
    let file = fs::OpenOptions::new()
        .create_new(true)
        .write(true)
        .mode(0o600)
        .open(to)?;
    let mut archive = tar::Builder::new(zstd::Encoder::new(file, LEVEL)?);
    archive.mode(tar::HeaderMode::Deterministic);
    let text = serde_json::to_vec_pretty(manifest).map_err(io::Error::other)?;
    let mut header = tar::Header::new_gnu();
    header.set_size(text.len() as u64);
    header.set_mode(0o600);
    header.set_cksum();
    archive.append_data(&mut header, MANIFEST, &text[..])?;
    for listed in &manifest.files {
        archive.append_path_with_name(folder.join(&listed.name), &listed.name)?;
    }
    let mut file = archive.into_inner()?.finish()?;
    file.flush()?;
    file.sync_all()
}
