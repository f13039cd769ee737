//! The command line: arguments in, data on stdout, talk on stderr, an exit code that means something.

mod cli;
mod commands;
mod failure;

use std::process::ExitCode;

use clap::Parser as _;

use crate::cli::{Arguments, Verb};

/// Many small, short-lived allocations: its thread-local free lists beat the system's here.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = match &arguments.verb {
        Verb::Hash(hash) => commands::hash::run(hash),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(arguments.json),
    }
}
