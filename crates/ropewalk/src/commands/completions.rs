//! `ropewalk completions` and `ropewalk man`: what packages install beside the program.

use clap::{Command, CommandFactory as _};
use clap_mangen::Man as Page;

use crate::cli::{Arguments, Completions, Man};
use crate::failure::{Failure, Kind};
use crate::print::out::Out;

/// What the pages are part of, in their head.
const MANUAL: &str = "General Commands Manual";

pub(crate) fn completions(arguments: &Completions) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Arguments::command(), "ropewalk", &mut script);
    let mut out = Out::new();
    out.bytes(&script)?;
    out.finish()
}

pub(crate) fn man(arguments: &Man) -> Result<(), Failure> {
    let command = Arguments::command();
    let Some(folder) = &arguments.dir else {
        let mut out = Out::new();
        out.bytes(&page("ropewalk", command)?)?;
        return out.finish();
    };
    let cannot = |error: std::io::Error| {
        Failure::new(
            Kind::Configuration,
            format!("cannot write to {}: {error}", folder.display()),
        )
    };
    std::fs::create_dir_all(folder).map_err(cannot)?;
    let mut waiting = vec![("ropewalk".to_owned(), command)];
    while let Some((name, command)) = waiting.pop() {
        for verb in command.get_subcommands().filter(|verb| verb.get_name() != "help") {
            // The page is of `ropewalk-log`; what is typed is `ropewalk log`.
            let typed = format!("{} {}", name.replace('-', " "), verb.get_name());
            let named = verb.clone().display_name(typed.clone()).bin_name(typed);
            waiting.push((format!("{name}-{}", verb.get_name()), named));
        }
        std::fs::write(folder.join(format!("{name}.1")), page(&name, command)?).map_err(cannot)?;
    }
    Ok(())
}

fn page(title: &str, command: Command) -> Result<Vec<u8>, Failure> {
    let mut text = Vec::new();
    let page = Page::new(command)
        .title(title)
        .manual(MANUAL)
        .source(format!("ropewalk {}", env!("CARGO_PKG_VERSION")));
    page.render(&mut text)
        .map_err(|error| Failure::from_error(Kind::Internal, &error))?;
    Ok(text)
}
