//! Where output goes: to stdout, on a terminal through a pager.

use std::io::{BufWriter, IsTerminal as _, StdoutLock, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::OnceLock;

use age::Encryptor;
use age::stream::StreamWriter;
use age::x25519::Recipient;
use anstyle::{AnsiColor, Style};
use clap::ColorChoice;
use serde::Serialize;
use tokio::signal::unix::{SignalKind, signal};

use super::text::{cut_painted, json};
use crate::failure::{Failure, Kind};

/// Columns of output that goes to no terminal, unless COLUMNS says otherwise.
const WIDTH_ELSEWHERE: usize = 120;

/// Narrower than this nothing can be laid out.
const WIDTH_MIN: usize = 40;

/// Wider than this is no terminal.
const WIDTH_MAX: usize = 1_000;

/// Quits where all fits on a screen, keeps our colours, leaves the text on the screen.
const PAGER: &str = "less -FRX";

/// What the command line says about colour, once.
static COLOUR: OnceLock<ColorChoice> = OnceLock::new();

pub(crate) fn choose(colour: ColorChoice) {
    COLOUR.get_or_init(|| colour);
}

pub(crate) struct Out {
    to: To,
    is_coloured: bool,
    pub(crate) width: usize,
    /// Whether lines end at that width: on a terminal, and where COLUMNS says so. A pipe takes them whole.
    is_narrow: bool,
    wants_pager: bool,
}

enum To {
    Stdout(BufWriter<StdoutLock<'static>>),
    Pager {
        pager: Child,
        text: Option<BufWriter<ChildStdin>>,
    },
    /// Encrypted. Without its last block it cannot be read: what was interrupted is not taken for all there was.
    Sealed(Option<Box<StreamWriter<BufWriter<StdoutLock<'static>>>>>),
    Memory(Vec<u8>),
}

impl Out {
    pub(crate) fn new() -> Self {
        let stdout = std::io::stdout();
        let is_coloured = match COLOUR.get() {
            Some(ColorChoice::Always) => true,
            Some(ColorChoice::Never) => false,
            Some(ColorChoice::Auto) | None => stdout.is_terminal() && said("NO_COLOR").is_none(),
        };
        let columns = || said("COLUMNS")?.parse().ok();
        let width = terminal_size::terminal_size_of(&stdout).map(|(width, _)| width.0.into());
        let width = width.or_else(columns);
        Out {
            to: To::Stdout(BufWriter::new(stdout.lock())),
            is_coloured,
            width: width.unwrap_or(WIDTH_ELSEWHERE).clamp(WIDTH_MIN, WIDTH_MAX),
            is_narrow: width.is_some(),
            wants_pager: false,
        }
    }

    /// Encrypted with age for these recipients.
    pub(crate) fn sealed_for(recipients: &[Recipient]) -> Result<Self, Failure> {
        let stdout = std::io::stdout();
        if stdout.is_terminal() {
            return Err(Failure::new(Kind::Usage, "what is encrypted is nothing for a terminal")
                .hint("ropewalk export --age RECIPIENT > FILE"));
        }
        let recipients = recipients.iter().map(|recipient| recipient as &dyn age::Recipient);
        let encryptor = Encryptor::with_recipients(recipients);
        let encryptor = encryptor.map_err(|error| Failure::from_error(Kind::Internal, &error))?;
        let sealed = encryptor.wrap_output(BufWriter::new(stdout.lock()));
        let sealed = sealed.map_err(|error| cannot_write(&error))?;
        Ok(Out {
            to: To::Sealed(Some(Box::new(sealed))),
            is_coloured: false,
            width: WIDTH_ELSEWHERE,
            is_narrow: false,
            wants_pager: false,
        })
    }

    /// Through the pager of whoever sits at a terminal, which is started when there is something to show.
    pub(crate) fn paged() -> Self {
        let mut out = Out::new();
        out.wants_pager = std::io::stdout().is_terminal();
        out
    }

    /// Looks the same, and goes nowhere yet.
    pub(crate) fn beside(&self) -> Self {
        Out {
            to: To::Memory(Vec::new()),
            wants_pager: false,
            ..*self
        }
    }

    /// What was written to one that goes nowhere.
    pub(crate) fn written(self) -> String {
        match &self.to {
            To::Memory(text) => String::from_utf8_lossy(text).into_owned(),
            To::Stdout(_) | To::Pager { .. } | To::Sealed(_) => String::new(),
        }
    }

    pub(crate) fn line(&mut self, text: &str) -> Result<(), Failure> {
        self.bytes(text.as_bytes())?;
        self.bytes(b"\n")
    }

    /// Columns behind so many that are taken, where lines end somewhere.
    pub(crate) fn room_behind(&self, taken: usize) -> Option<usize> {
        self.is_narrow.then(|| self.width.saturating_sub(taken))
    }

    /// Whether lines end somewhere.
    pub(crate) fn is_narrow(&self) -> bool {
        self.is_narrow
    }

    /// A line of which nothing stands below its beginning: what is too long for a terminal is cut off.
    pub(crate) fn fitted(&mut self, text: &str) -> Result<(), Failure> {
        match self.is_narrow {
            true => self.line(&cut_painted(text, self.width)),
            false => self.line(text),
        }
    }

    pub(crate) fn json(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        let line = serde_json::to_string(value).map_err(|error| Failure::new(Kind::Internal, error.to_string()))?;
        self.line(&json(&line))
    }

    /// As [`Out::json`], for what does not say itself which version of its form it has.
    pub(crate) fn versioned(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        #[derive(Serialize)]
        struct Versioned<'v, V> {
            v: u32,
            #[serde(flatten)]
            value: &'v V,
        }
        self.json(&Versioned { v: 1, value })
    }

    fn writer(&mut self) -> Option<&mut dyn Write> {
        match &mut self.to {
            To::Stdout(stdout) => Some(stdout),
            To::Pager { text, .. } => text.as_mut().map(|text| text as &mut dyn Write),
            To::Sealed(sealed) => sealed.as_mut().map(|sealed| sealed as &mut dyn Write),
            To::Memory(text) => Some(text),
        }
    }

    /// A closed pipe (`| head`, `q` in a pager) is the reader's way to say enough.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        if std::mem::take(&mut self.wants_pager)
            && let Some(pager) = start_pager()
        {
            self.to = pager;
        }
        let written = self.writer().map_or(Ok(()), |writer| writer.write_all(bytes));
        written.map_err(|error| cannot_write(&error))
    }

    /// Whoever waits for news sees what there is.
    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        let flushed = self.writer().map_or(Ok(()), |writer| writer.flush());
        flushed.map_err(|error| cannot_write(&error))
    }

    pub(crate) fn finish(mut self) -> Result<(), Failure> {
        if let To::Sealed(sealed) = &mut self.to
            && let Some(sealed) = sealed.take()
        {
            let written = sealed.finish().and_then(|mut stdout| stdout.flush());
            return written.map_err(|error| cannot_write(&error));
        }
        self.flush()
    }

    fn painted(&self, style: Style, text: &str) -> String {
        match self.is_coloured {
            true => format!("{style}{text}{style:#}"),
            false => text.to_owned(),
        }
    }

    /// A name that can be typed.
    pub(crate) fn name(&self, text: &str) -> String {
        self.painted(AnsiColor::Yellow.on_default(), text)
    }

    pub(crate) fn strong(&self, text: &str) -> String {
        self.painted(Style::new().bold(), text)
    }

    pub(crate) fn faint(&self, text: &str) -> String {
        self.painted(Style::new().dimmed(), text)
    }

    pub(crate) fn alarm(&self, text: &str) -> String {
        self.painted(AnsiColor::Red.on_default(), text)
    }

    /// What was looked for.
    pub(crate) fn found(&self, text: &str) -> String {
        self.painted(AnsiColor::Red.on_default().bold(), text)
    }
}

impl Drop for Out {
    /// The pager has the terminal until its reader leaves it.
    fn drop(&mut self) {
        if let To::Pager { pager, text } = &mut self.to {
            drop(text.take());
            drop(pager.wait());
        }
    }
}

/// `None` where nobody wants one, or it cannot be started.
fn start_pager() -> Option<To> {
    let chosen = std::env::var("PAGER").ok();
    let command = chosen.as_deref().map_or(PAGER, str::trim);
    if command.is_empty() || command == "cat" {
        return None;
    }
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).stdin(Stdio::piped());
    if said("LESS").is_none() {
        shell.env("LESS", "FRX");
    }
    let mut pager = shell.spawn().ok()?;
    let text = pager.stdin.take().map(BufWriter::new);
    // Ctrl-C is for the pager; without us its reader would be left with a half-dead terminal. Outside of a runtime it stays as it is.
    if tokio::runtime::Handle::try_current().is_ok() {
        drop(signal(SignalKind::interrupt()));
    }
    Some(To::Pager { pager, text })
}

/// A variable that is set to something.
fn said(variable: &str) -> Option<String> {
    std::env::var(variable).ok().filter(|value| !value.is_empty())
}

fn cannot_write(error: &std::io::Error) -> Failure {
    match error.kind() {
        std::io::ErrorKind::BrokenPipe => Failure::new(Kind::Closed, "closed"),
        _ => Failure::new(Kind::Internal, format!("cannot write to stdout: {error}")),
    }
}

/// Talk: what happens, for whoever watches.
#[expect(clippy::print_stderr, reason = "talk goes to stderr")]
pub(crate) fn say(text: &str) {
    eprintln!("{}", crate::print::text::one_line(text));
}
