//! Documents: files that are read as a whole, compressed or in an archive, a piece at a time.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek as _, SeekFrom};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;
use zip::ZipArchive;

/// Most bytes of one file in an archive. Archives that unpack to more are made to hurt.
const UNPACKED_BYTES_MAX: u64 = 64 << 30;

/// Most files of an archive that are looked at. An export has its pictures in it.
const MEMBERS_MAX: usize = 1 << 20;

const BUFFER_BYTES: usize = 256 << 10;

/// A file that was opened.
pub(crate) enum Document {
    /// With nothing around it any more.
    Plain(Box<dyn BufRead + Send>),
    Archive(Archive),
}

/// A zip.
pub(crate) struct Archive(ZipArchive<BufReader<File>>);

pub(crate) fn open(path: &Path) -> io::Result<Document> {
    let mut file = File::open(path)?;
    let start = start(&mut file)?;
    file.seek(SeekFrom::Start(0))?;
    let file = BufReader::with_capacity(BUFFER_BYTES, file);
    Ok(match start {
        [0x1f, 0x8b, ..] => Document::Plain(buffered(MultiGzDecoder::new(file))),
        [0x28, 0xb5, 0x2f, 0xfd] => Document::Plain(buffered(zstd::Decoder::with_buffer(file)?)),
        [b'P', b'K', 3 | 5, 4 | 6] => Document::Archive(Archive(ZipArchive::new(file).map_err(io::Error::other)?)),
        _ => Document::Plain(Box::new(file)),
    })
}

fn start(file: &mut File) -> io::Result<[u8; 4]> {
    let mut start = Vec::new();
    file.take(4).read_to_end(&mut start)?;
    start.resize(4, 0);
    Ok([start[0], start[1], start[2], start[3]])
}

fn buffered(reader: impl Read + Send + 'static) -> Box<dyn BufRead + Send> {
    Box::new(BufReader::with_capacity(BUFFER_BYTES, reader))
}

impl Archive {
    /// The names of its files, in order.
    pub(crate) fn names(&self) -> Vec<String> {
        let names = self.0.file_names().take(MEMBERS_MAX).filter_map(Result::ok);
        let mut names: Vec<String> = names.map(Cow::into_owned).collect();
        names.retain(|name| !name.ends_with('/'));
        names.sort();
        names
    }

    /// One of its files, unpacked as it is read.
    pub(crate) fn member(&mut self, name: &str) -> io::Result<impl BufRead + '_> {
        let member = self.0.by_name(name).map_err(io::Error::other)?;
        Ok(BufReader::with_capacity(BUFFER_BYTES, member.take(UNPACKED_BYTES_MAX)))
    }
}

/// The last piece of a path inside an archive.
pub(crate) fn file_name(name: &str) -> &str {
    name.rsplit(['/', '\\']).next().unwrap_or(name)
}
