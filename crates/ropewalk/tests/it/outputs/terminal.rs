//! A terminal: colours, a pager, lines that fit, and a tree that is drawn over.

use std::process::Command;

use super::hostile::raw;
use super::traffic;
use crate::store::TestStore;
use crate::{stderr, stdout};

/// Runs the binary on a terminal of 80 columns and gives what came out of it.
fn on_a_terminal(store: &TestStore, variables: &str, arguments: &str) -> Option<String> {
    on_a_terminal_until("", store, variables, arguments)
}

/// The same, until Ctrl-C after something was seen.
fn on_a_terminal_until(seen: &str, store: &TestStore, variables: &str, arguments: &str) -> Option<String> {
    const SCRIPT: &str = "
import fcntl, os, pty, signal, struct, sys, termios
pid, terminal = pty.fork()
if pid == 0:
    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack('HHHH', 24, 80, 0, 0))
    os.execv('/bin/sh', ['sh', '-c', sys.argv[1]])
text = b''
while True:
    try:
        piece = os.read(terminal, 65536)
    except OSError:
        break
    if not piece:
        break
    text += piece
    if sys.argv[2] and sys.argv[2].encode() in text:
        os.kill(pid, signal.SIGINT)
os.waitpid(pid, 0)
sys.stdout.buffer.write(text)
";
    let data = store.data();
    let binary = env!("CARGO_BIN_EXE_ropewalk");
    let line = format!(
        "TERM=xterm {variables} exec {binary} --data {} {arguments}",
        data.display()
    );
    let output = Command::new("python3")
        .args(["-c", SCRIPT, &line, seen])
        .output()
        .ok()?;
    assert!(output.status.success(), "{}", stderr(&output));
    Some(stdout(&output).replace("\r\n", "\n"))
}

#[test]
fn a_terminal_has_colours_a_pager_and_lines_that_fit() {
    let store = TestStore::with(&traffic());
    let Some(through_pager) = on_a_terminal(&store, "PAGER='sed s/^/paged:/'", "log --graph") else {
        println!("skipped: no python3");
        return;
    };
    assert!(
        through_pager.lines().all(|line| line.starts_with("paged:")),
        "{through_pager}"
    );
    assert!(through_pager.contains("\u{1b}[33m"), "{through_pager}");
    let plain = on_a_terminal(&store, "PAGER=cat NO_COLOR=1", "log --graph").unwrap();
    assert!(raw(&plain).is_empty(), "{plain:?}");
    assert!(plain.lines().all(|line| line.chars().count() <= 80), "{plain}");
    let never = on_a_terminal(&store, "PAGER=", "--color never log").unwrap();
    assert!(raw(&never).is_empty() && !never.contains("\u{1b}"), "{never:?}");
    let json = on_a_terminal(&store, "PAGER='sed s/^/paged:/'", "--json log").unwrap();
    assert!(json.lines().all(|line| line.starts_with('{')), "{json}");
    let left = on_a_terminal(&store, "PAGER=true", "log --exchanges --hashes").unwrap();
    assert_eq!(left, "", "who closes the pager has had enough");
}

#[test]
fn a_live_tree_is_drawn_over_and_ends_with_ctrl_c() {
    let store = TestStore::with(&traffic());
    let Some(drawn) = on_a_terminal_until("\u{1b}[J", &store, "", "tree --live") else {
        println!("skipped: no python3");
        return;
    };
    assert!(drawn.starts_with("\u{1b}[2J\u{1b}[H"), "{drawn:?}");
    assert!(drawn.contains("rigger"), "{drawn:?}");
}
