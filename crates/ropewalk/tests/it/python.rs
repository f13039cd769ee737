//! A Python with packages from PyPI, in a folder of the build.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};

/// Tests that want the same packages wait for each other.
static MAKING: Mutex<()> = Mutex::new(());

/// A Python that has what `wanted` lists, made on first use; else what is missing.
pub(crate) fn python_with(name: &str, wanted: &Path) -> Result<PathBuf, String> {
    let _making = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let python = place.join("bin/python");
    let made_for = place.join("wanted.txt");
    let text = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
    if python.exists() && text(&made_for) == text(wanted) {
        return Ok(python);
    }
    run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&place))?;
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install", "--quiet", "--retries", "1", "--timeout", "20"]);
    run(pip.arg("-r").arg(wanted))?;
    std::fs::copy(wanted, &made_for).map_err(|error| error.to_string())?;
    Ok(python)
}

pub(crate) fn run(command: &mut Command) -> Result<Output, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    match output.status.success() {
        true => Ok(output),
        false => Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr))),
    }
}
