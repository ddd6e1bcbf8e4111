//! The wait for a login of another process, which shows the page of that login.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mcp_client::oauth::{Error, ErrorKind, FileStore, StoreLock, TokenStore};
use mcp_protocol::auth::Secret;
use serde_json::{Value, json};
use tokio::time::Instant;
use url::Url;

use super::page::time_left;
use crate::{
    screen::note,
    style::{self, Style},
    text::line,
};

/// The keys of tokens begin with this text.
pub(super) const TOKENS: &str = "tokens/";
/// The keys of shown pages begin with this text.
const PAGES: &str = "page/";
/// The time between two readings of the page of another process.
const INTERVAL: Duration = Duration::from_millis(250);
/// The wait without a page after which the command names its cause. A renewal of tokens is usually shorter.
const SHORT: Duration = Duration::from_secs(1);

/// The page of a login, which other processes of the user may show too.
pub(super) struct ShownPage<'a> {
    pub(super) url: &'a str,
    /// The code that the user enters at the page.
    pub(super) code: Option<&'a str>,
    pub(super) limit: Duration,
}

/// Stores the page that this process shows.
pub(super) async fn store(files: &FileStore, server: &Url, page: &ShownPage<'_>) {
    let end = unix_time() + page.limit.as_secs();
    let record = json!({ "url": page.url, "code": page.code, "end": end }).to_string();
    if let Err(error) = files.save(&format!("{PAGES}{server}"), &Secret::new(record)).await {
        tracing::debug!(%error, "other processes cannot show the page of the login");
    }
}

/// Removes the page of the tokens under a key: its login has ended.
pub(super) async fn forget(files: &FileStore, key: &str) {
    let Some(server) = key.strip_prefix(TOKENS) else { return };
    if let Err(error) = files.remove(&format!("{PAGES}{server}")).await {
        let remedy = "correct the permissions of the directory of the logins";
        tracing::warn!(%error, remedy, "the page of an ended login remains stored, and other processes show it");
    }
}

/// Takes the lock of a key. While another process has the lock of tokens, the user sees the reason of the wait.
pub(super) async fn lock(
    store: &dyn TokenStore,
    files: &FileStore,
    key: &str,
    limit: Duration,
) -> Result<StoreLock, Error> {
    let Some(server) = key.strip_prefix(TOKENS) else { return store.lock(key, limit).await };
    let start = Instant::now();
    let mut shown: Option<String> = None;
    loop {
        let left = limit.saturating_sub(start.elapsed());
        match store.lock(key, left.min(INTERVAL)).await {
            Err(error) if error.kind() == ErrorKind::Unavailable && left > INTERVAL => {}
            Err(error) => return Err(error),
            Ok(lock) => {
                // A process that ended without its login may have left a page.
                forget(files, key).await;
                return Ok(lock);
            }
        }
        let page = page_of(files, server).await;
        match page.as_ref().and_then(|page| page["url"].as_str()) {
            Some(url) if shown.as_deref() != Some(url) => {
                show(server, page.as_ref().unwrap_or(&Value::Null));
                shown = Some(url.to_owned());
            }
            None if shown.is_none() && start.elapsed() >= SHORT => {
                note(format!(
                    "mcp: another process logs in at {} or renews its tokens; this command waits for at most {}",
                    line(server),
                    time_left(limit)
                ));
                shown = Some(String::new());
            }
            _ => {}
        }
    }
}

/// Returns the page that another process shows. `None` if its time limit has passed.
async fn page_of(files: &FileStore, server: &str) -> Option<Value> {
    let record = files.load(&format!("{PAGES}{server}")).await.ok()??;
    let page: Value = serde_json::from_str(record.expose()).ok()?;
    (page["end"].as_u64()? > unix_time()).then_some(page)
}

/// Prints the page of another process, and how long the login may take.
fn show(server: &str, page: &Value) {
    let left = page["end"].as_u64().unwrap_or_default().saturating_sub(unix_time());
    let left = time_left(Duration::from_secs(left));
    note(format!("mcp: another process waits for the login at {}; this command uses its result", line(server)));
    note(format!(
        "mcp: if no browser shows the page of that login, open this URL within {left}; Ctrl-C ends the wait:"
    ));
    note(style::err(Style::Name, &line(page["url"].as_str().unwrap_or_default())));
    if let Some(code) = page["code"].as_str() {
        note(format!("mcp: and enter the code {}", style::err(Style::Strong, &line(code))));
    }
}

/// Returns the time since 1970 in seconds.
pub(super) fn unix_time() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
