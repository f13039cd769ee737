//! Where output goes.

use std::io::{BufWriter, IsTerminal as _, StdoutLock, Write as _};

use std::sync::OnceLock;

use anstyle::{AnsiColor, Style};
use clap::ColorChoice;
use serde::Serialize;

use crate::failure::{Failure, Kind};

/// Columns of output that goes to no terminal.
const WIDTH_ELSEWHERE: usize = 120;

/// Narrower than this nothing can be laid out.
const WIDTH_MIN: usize = 40;

/// What the command line says about colour, once.
static COLOUR: OnceLock<ColorChoice> = OnceLock::new();

pub(crate) fn choose(colour: ColorChoice) {
    COLOUR.get_or_init(|| colour);
}

pub(crate) struct Out {
    to: BufWriter<StdoutLock<'static>>,
    is_coloured: bool,
    pub(crate) width: usize,
}

impl Out {
    pub(crate) fn new() -> Self {
        let stdout = std::io::stdout();
        let is_terminal = stdout.is_terminal();
        let is_coloured = match COLOUR.get() {
            Some(ColorChoice::Always) => true,
            Some(ColorChoice::Never) => false,
            Some(ColorChoice::Auto) | None => is_terminal && !is_said("NO_COLOR"),
        };
        let width = terminal_size::terminal_size_of(&stdout).map_or(WIDTH_ELSEWHERE, |(width, _)| width.0.into());
        Out {
            to: BufWriter::new(stdout.lock()),
            is_coloured,
            width: width.max(WIDTH_MIN),
        }
    }

    pub(crate) fn line(&mut self, text: &str) -> Result<(), Failure> {
        self.bytes(text.as_bytes())?;
        self.bytes(b"\n")
    }

    pub(crate) fn json(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        let line = serde_json::to_string(value).map_err(|error| Failure::new(Kind::Internal, error.to_string()))?;
        self.line(&line)
    }

    /// A closed pipe (`| head`) is the reader's way to say enough.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.to.write_all(bytes).map_err(|error| cannot_write(&error))
    }

    pub(crate) fn finish(mut self) -> Result<(), Failure> {
        self.to.flush().map_err(|error| cannot_write(&error))
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
}

/// A variable that is set to something.
fn is_said(variable: &str) -> bool {
    std::env::var_os(variable).is_some_and(|value| !value.is_empty())
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
