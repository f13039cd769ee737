//! Exchanges as they were on the wire, one a line: what `export` writes.

use ropewalk_engine::RawExchange;
use ropewalk_engine::logged::Logged;
use ropewalk_store::facts::Provenance;
use ropewalk_store::store::ID_MAX;
use ropewalk_wire::exchange::ExchangeLine;

use crate::reader::{Found, LineReader, Sink};

/// Reads one file.
#[derive(Debug)]
pub struct Exchanges {
    name: String,
}

impl Exchanges {
    pub fn new(name: &str) -> Self {
        Exchanges { name: name.to_owned() }
    }

    fn read(&self, number: u64, line: &[u8]) -> Result<Logged, String> {
        let mut line = ExchangeLine::parse(line).map_err(|error| with_source(&error))?;
        let owner = line.owner.take();
        let mut raw = RawExchange::try_from(line).map_err(|error| error.to_string())?;
        match raw.id.len() {
            0 => return Err("the id is empty".to_owned()),
            length if length > ID_MAX => return Err(format!("the id has {length} bytes; {ID_MAX} is the most")),
            _ => {}
        }
        raw.provenance = Some(Provenance {
            file: self.name.clone(),
            line: number,
            uuid: None,
            aliases: Vec::new(),
            log_begun: None,
        });
        Ok(Logged::Exchange {
            owner,
            raw: Box::new(raw),
        })
    }
}

impl LineReader for Exchanges {
    fn line(&mut self, number: u64, line: &[u8], sink: &mut dyn Sink) -> Found {
        match self.read(number, line) {
            Ok(found) => sink.found(found),
            Err(problem) => {
                sink.problem(number, problem);
                Found::GoOn
            }
        }
    }

    fn pause(&mut self, _: &mut dyn Sink) -> Found {
        Found::GoOn
    }
}

fn with_source(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
