//! No secret is ever on disk: not in the store, not in the journal, whole or after a kill, in any mode.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use ropewalk_testkit::upstream::provider::Provider;
use ropewalk_testkit::upstream::{Answer, Gate, Upstream};

use super::client::{Client, Kind};
use super::server::{Place, Server, wait_until};

const MESSAGES: Kind = Kind::Messages { streams: true };

const TOKEN: &str = "walk-token-5d1f0c7e2b9a";
const API_KEY: &str = "sk-ant-api03-Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4-header-AA";
const BEARER: &str = "sk-proj-Qk3vXw8LrT2yN6bHs9Jd4Fg7Mz1Pc5Va0Ue";
const COOKIE: &str = "session-cookie-9b2e77f1";
/// Said in a prompt, and by the model.
const IN_BODY: &str = "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";
const IN_ANSWER: &str = "AKIAQYLPMN5HFIQR7XYA";
/// Named by the user's own rule.
const BY_RULE: &str = "badge-4471-Q";
const SECRETS: [&str; 7] = [TOKEN, API_KEY, BEARER, COOKIE, IN_BODY, IN_ANSWER, BY_RULE];

const REDACTING: &str = "[[record.redact.patterns]]\nname = 'badge'\nregex = 'badge-[0-9]{4}-[A-Z]'\n";

#[tokio::test(flavor = "multi_thread")]
async fn one_owner_leaves_no_secret_on_disk() {
    nothing_is_left(REDACTING, "").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn owners_by_token_leave_no_secret_on_disk() {
    let config = format!("[owners]\nmode = 'tokens'\n[owners.tokens]\n{TOKEN} = 'ann'\n{REDACTING}");
    nothing_is_left(&config, &format!("/t/{TOKEN}")).await;
    nothing_is_left(&config, "").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn owners_by_credential_leave_no_secret_on_disk() {
    nothing_is_left(&format!("[owners]\nmode = 'credential'\n{REDACTING}"), "").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_else_can_read_what_is_recorded() {
    let upstream = Upstream::start().await;
    upstream.answer_as(Provider::new());
    let place = Place::before(&upstream);
    let server = place.serve();
    say_secrets(&server, "").await;
    wait_until(|| place.data().join("ropewalk.db").exists().then_some(()));
    let mode = |path: &Path| Some(fs::metadata(path).ok()?.permissions().mode() & 0o777);
    assert_eq!(mode(&place.data()), Some(0o700), "the data folder");
    assert_eq!(mode(&place.data().join("journal")), Some(0o700), "the journal's folder");
    for path in files_below(&place.data()) {
        // A segment may have been trimmed meanwhile.
        assert_eq!(mode(&path).unwrap_or(0) & 0o077, 0, "{}", path.display());
    }
}

/// Sends every secret there is, then looks for them while the server runs, after it was killed in a stream, and at the end.
async fn nothing_is_left(config: &str, prefix: &str) {
    let upstream = Upstream::start().await;
    upstream.answer_as(Provider::new());
    let place = Place::with(&upstream, config);
    let server = place.serve();
    say_secrets(&server, prefix).await;
    look_for_secrets(&place.data());
    // Cut off in the middle: what is in the journal now was never whole.
    let gate = Gate::closed();
    let begun = format!("event: ping\ndata: {{\"type\":\"ping\",\"note\":\"{IN_ANSWER}\"}}\n\n");
    upstream.answer_next(Answer::events([begun]).wait_for(&gate));
    let address = server.address;
    let path = format!("{prefix}{}", MESSAGES.path());
    let request = MESSAGES.body(&format!("keep {IN_BODY} and {BY_RULE} to yourself"));
    let cut = tokio::spawn(async move {
        let mut client = Client::connect(address).await.unwrap();
        client
            .post(&path, &[("x-api-key", API_KEY), ("x-ropewalk-token", TOKEN)], request)
            .await
    });
    // The request is written when it is whole; the answer, which is not, waits in memory to be searched.
    wait_until(|| is_below(&place.data().join("journal"), "to yourself").then_some(()));
    let said = server.said();
    server.kill();
    drop(cut.await);
    look_for_secrets(&place.data());
    place.record_what_is_left();
    look_for_secrets(&place.data());
    // What is compressed on disk is looked at as it is read.
    let owner = place.only_owner();
    let exported = place.store.ok(&["--owner", &owner, "export"]);
    assert_eq!(exported.lines().count(), 4, "{exported}");
    for secret in SECRETS {
        assert!(!exported.contains(secret), "{secret} in {exported}");
        assert!(!said.contains(secret), "{secret} in {said}");
        assert!(!owner.contains(secret));
    }
}

/// In headers, in the query, in a prompt and in the answer to it, streamed and not.
async fn say_secrets(server: &Server, prefix: &str) {
    let mut client = Client::connect(server.address).await.unwrap();
    let headers = [
        ("x-api-key", API_KEY),
        ("authorization", &format!("Bearer {BEARER}") as &str),
        ("cookie", COOKIE),
        ("x-ropewalk-token", TOKEN),
    ];
    let text = format!("my key is {IN_BODY}, my badge {BY_RULE}\n!say yours is {IN_ANSWER}, is it?");
    for kind in [
        MESSAGES,
        Kind::Messages { streams: false },
        Kind::Chat { streams: true },
    ] {
        let path = format!("{prefix}{}?key={API_KEY}&beta=true", kind.path());
        let seen = client.post(&path, &headers, kind.body(&text)).await.unwrap();
        assert_eq!(seen.status, 200);
        assert!(seen.is_whole(kind));
    }
}

fn look_for_secrets(folder: &Path) {
    look_for(&SECRETS, folder);
}

/// None of these is in any file.
pub(super) fn look_for(secrets: &[&str], folder: &Path) {
    let files = files_below(folder);
    assert!(files.len() > 2, "{files:?}");
    for secret in secrets {
        let found = files.iter().find(|path| holds(path, secret));
        assert!(found.is_none(), "{secret} is in {found:?}");
    }
}

fn is_below(folder: &Path, text: &str) -> bool {
    files_below(folder).iter().any(|path| holds(path, text))
}

/// A file that is not there any more holds nothing: a segment may have been trimmed meanwhile.
fn holds(path: &Path, text: &str) -> bool {
    let bytes = fs::read(path).unwrap_or_default();
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

fn files_below(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files.extend(files_below(&path)),
            false => files.push(path),
        }
    }
    files
}
