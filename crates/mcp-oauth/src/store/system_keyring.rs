//! The keyring of the operating system.

use std::{fmt, path::PathBuf, time::Duration};

#[cfg(any(windows, target_os = "macos", target_os = "linux"))]
use keyring_core::api::CredentialStoreApi as _;
use mcp_protocol::auth::Secret;

use super::{StoreLock, file, keyring::Keyring};
use crate::error::{Error, ErrorKind};

/// The service of all entries.
const SERVICE: &str = "mcp-oauth";

/// An entry in the keyring of the operating system, with the service `mcp-oauth` and the name of an application as the
/// account.
///
/// | system | keyring | program that shows the entry |
/// |---|---|---|
/// | macOS | the login keychain | `security find-generic-password -s mcp-oauth -a NAME -w` |
/// | Windows | the Credential Manager | Control Panel, entry `NAME.mcp-oauth` |
/// | others | the Secret Service (GNOME Keyring, KWallet, KeePassXC), through the program `secret-tool` of libsecret | `secret-tool lookup service mcp-oauth account NAME` |
///
/// Without `secret-tool` or without a Secret Service, such as on most servers, the keyring fails. A
/// [`SealedStore`](super::SealedStore) then stores plain files. [`SystemKeyring::kernel`] is the alternative on Linux.
///
/// ```
/// use mcp_oauth::SystemKeyring;
///
/// let keyring = SystemKeyring::new("example");
/// assert!(format!("{keyring:?}").contains("example"));
/// ```
#[derive(Clone)]
pub struct SystemKeyring {
    name: String,
    place: Place,
    /// The directory of the locks of the user.
    locks: Option<PathBuf>,
}

/// Returns the directory of the locks. It does not depend on the settings of a process other than the home directory.
fn locks() -> Option<PathBuf> {
    let home = std::env::home_dir().filter(|home| home.is_absolute())?;
    Some(home.join(if cfg!(windows) { "AppData/Local" } else { ".local/state" }).join(SERVICE))
}

#[derive(Clone)]
enum Place {
    /// The Secret Service, through this program.
    #[cfg(all(unix, not(target_os = "macos")))]
    SecretTool(PathBuf),
    /// The keyring of a system library: on Linux that of the kernel.
    #[cfg(any(windows, target_os = "macos", target_os = "linux"))]
    Native,
}

impl SystemKeyring {
    /// Returns the entry of an application in the keyring of the user. Each store of one application can use the same entry.
    /// The store that creates the entry holds the lock of a file in `~/.local/state/mcp-oauth` (on Windows
    /// `AppData/Local/mcp-oauth`).
    pub fn new(name: impl Into<String>) -> Self {
        #[cfg(all(unix, not(target_os = "macos")))]
        let place = Place::SecretTool("secret-tool".into());
        #[cfg(any(windows, target_os = "macos"))]
        let place = Place::Native;
        Self { name: name.into(), place, locks: locks() }
    }

    /// Returns the entry of an application in the keyring of the Linux kernel. It needs no service, and asks no user.
    ///
    /// The kernel keeps the entry in memory. A restart of the machine deletes it, and the kernel deletes it after a time
    /// without use, usually 3 days. Then each user must log in again. Many containers deny the access to it.
    #[cfg(target_os = "linux")]
    pub fn kernel(name: impl Into<String>) -> Self {
        Self { name: name.into(), place: Place::Native, locks: locks() }
    }

    #[cfg(any(windows, target_os = "macos", target_os = "linux"))]
    fn entry(&self) -> keyring_core::Result<keyring_core::Entry> {
        #[cfg(target_os = "linux")]
        let store = linux_keyutils_keyring_store::Store::new()?;
        #[cfg(target_os = "macos")]
        let store = apple_native_keyring_store::keychain::Store::new()?;
        #[cfg(windows)]
        let store = windows_native_keyring_store::Store::new()?;
        store.build(SERVICE, &self.name, None)
    }
}

#[cfg(any(windows, target_os = "macos", target_os = "linux"))]
fn failed(error: &keyring_core::Error) -> Error {
    // Some variants contain the stored bytes, so the error is not a source.
    let text = match error {
        keyring_core::Error::BadEncoding(_) | keyring_core::Error::BadDataFormat(..) => {
            "the entry of the keyring is not a text".to_owned()
        }
        error => format!("the keyring failed: {error}"),
    };
    Error::new(ErrorKind::Store, text)
}

impl Keyring for SystemKeyring {
    fn get(&self) -> Result<Option<Secret>, Error> {
        match &self.place {
            #[cfg(all(unix, not(target_os = "macos")))]
            Place::SecretTool(program) => super::secret_tool::lookup(program, SERVICE, &self.name),
            #[cfg(any(windows, target_os = "macos", target_os = "linux"))]
            Place::Native => match self.entry().and_then(|entry| entry.get_password()) {
                Ok(text) => Ok(Some(Secret::new(text))),
                Err(keyring_core::Error::NoEntry) => Ok(None),
                Err(error) => Err(failed(&error)),
            },
        }
    }

    fn set(&self, secret: &Secret) -> Result<(), Error> {
        match &self.place {
            #[cfg(all(unix, not(target_os = "macos")))]
            Place::SecretTool(program) => super::secret_tool::store(program, SERVICE, &self.name, secret),
            #[cfg(any(windows, target_os = "macos", target_os = "linux"))]
            Place::Native => {
                let set = self.entry().and_then(|entry| entry.set_password(secret.expose()));
                set.map_err(|error| failed(&error))
            }
        }
    }

    fn lock(&self, limit: Duration) -> Result<Option<StoreLock>, Error> {
        let Some(dir) = &self.locks else { return Ok(None) };
        match file::lock(dir, &self.name, limit) {
            Ok(Some(lock)) => Ok(Some(StoreLock::new(lock))),
            Ok(None) => {
                Err(Error::new(ErrorKind::Unavailable, "another process still creates the entry of the keyring"))
            }
            Err(error) => {
                tracing::debug!(%error, dir = %dir.display(), "the entry of the keyring has no lock");
                Ok(None)
            }
        }
    }
}

impl fmt::Debug for SystemKeyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SystemKeyring").field("name", &self.name).finish_non_exhaustive()
    }
}

#[cfg(all(test, unix, not(target_os = "macos")))]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn an_entry_of_the_kernel_is_read_and_written_unless_the_kernel_denies_it() {
        let keyring = SystemKeyring::kernel(format!("test-{}", std::process::id()));
        match keyring.get() {
            Ok(entry) => assert_eq!(entry, None),
            Err(error) => return assert!(error.to_string().starts_with("the keyring failed: "), "{error}"),
        }
        match keyring.set(&"hunter2".into()) {
            Ok(()) => assert_eq!(keyring.get().unwrap().unwrap().expose(), "hunter2"),
            Err(error) => return assert!(!error.to_string().contains("hunter2"), "{error}"),
        }
        keyring.entry().unwrap().delete_credential().unwrap();
    }

    /// A program in the place of `secret-tool`, in a directory of its own.
    struct FakeTool(PathBuf);

    impl FakeTool {
        /// Returns a program with these cases for its arguments. It keeps its entry in the file `ENTRY`.
        fn new(name: &str, cases: &str) -> Self {
            let dir = std::env::temp_dir().join(format!("mcp-oauth-secret-tool-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&dir).expect("the directory can be created");
            let tool = Self(dir);
            let script =
                format!("#!/bin/sh\ncase \"$1 $*\" in\n{cases}\n*) echo \"wrong arguments: $*\" >&2; exit 2;;\nesac\n");
            let entry = tool.entry().display().to_string();
            std::fs::write(tool.program(), script.replace("ENTRY", &entry)).expect("the program can be written");
            std::fs::set_permissions(tool.program(), std::os::unix::fs::PermissionsExt::from_mode(0o755))
                .expect("the program is made executable");
            tool
        }

        fn program(&self) -> PathBuf {
            self.0.join("secret-tool")
        }

        fn entry(&self) -> PathBuf {
            self.0.join("entry")
        }

        fn keyring(&self, name: &str) -> SystemKeyring {
            SystemKeyring {
                name: name.into(),
                place: Place::SecretTool(self.program()),
                locks: Some(self.0.join("locks")),
            }
        }
    }

    impl Drop for FakeTool {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    const LOOKUP: &str = "'lookup lookup service mcp-oauth account app') test -f ENTRY && cat ENTRY;;";
    const SEARCH: &str = "'search search service mcp-oauth account app') test -f ENTRY && echo '[/1]'; exit 0;;";
    const STORE: &str = "'store store --label='*' service mcp-oauth account app') cat > ENTRY;;";

    #[test]
    fn an_entry_is_read_and_written_through_the_program() {
        let tool = FakeTool::new("entry", &[LOOKUP, SEARCH, STORE].join("\n"));
        let app = tool.keyring("app");
        assert_eq!(app.get().unwrap(), None);
        app.set(&"hunter2".into()).unwrap();
        assert_eq!(std::fs::read_to_string(tool.entry()).unwrap(), "hunter2");
        assert_eq!(app.get().unwrap().unwrap().expose(), "hunter2");
        for result in [tool.keyring("other").get().map(drop), tool.keyring("other").set(&"hunter2".into())] {
            let error = result.unwrap_err();
            assert!(error.to_string().contains("wrong arguments") && !error.to_string().contains("hunter2"), "{error}");
        }
        drop(tool);
        let error = app.get().unwrap_err();
        assert!(error.to_string().contains("`secret-tool` cannot be started"), "{error}");
    }

    #[tokio::test]
    async fn a_locked_entry_and_a_killed_program_keep_the_entry() {
        use crate::{MemoryStore, SealedStore, TokenStore as _};

        const DISMISSED: &str = "'lookup lookup'*) exit 1;;";
        for (name, cases, kind, text) in [
            ("locked", [DISMISSED, SEARCH], ErrorKind::Unavailable, "the keyring is locked"),
            (
                "killed",
                ["'lookup lookup'*) kill -9 $$;;", "'search search'*) exit 0;;"],
                ErrorKind::Unavailable,
                "signal 9",
            ),
            ("killed-search", [DISMISSED, "'search search'*) kill -9 $$;;"], ErrorKind::Unavailable, "signal 9"),
            ("failed-search", [DISMISSED, "'search search'*) echo fault >&2;;"], ErrorKind::Store, "failed: fault"),
            ("other-code", ["'lookup lookup'*) exit 3;;", "'search search'*) exit 0;;"], ErrorKind::Store, "3"),
        ] {
            let tool = FakeTool::new(name, &[cases[0], cases[1], STORE].join("\n"));
            std::fs::write(tool.entry(), "hunter2").unwrap();
            let error = tool.keyring("app").get().unwrap_err();
            assert_eq!(error.kind(), kind, "{name}: {error}");
            assert!(error.to_string().contains(text) && !error.to_string().contains("hunter2"), "{name}: {error}");

            let store = SealedStore::new(MemoryStore::new(), tool.keyring("app"));
            store.save("key", &"record".into()).await.unwrap();
            assert_eq!(std::fs::read_to_string(tool.entry()).unwrap(), "hunter2", "{name}: the entry is kept");
        }
    }

    #[test]
    fn only_one_process_creates_an_entry() {
        let tool = FakeTool::new("lock", STORE);
        let limit = Duration::from_millis(50);
        let lock = tool.keyring("app").lock(limit).unwrap().unwrap();
        let error = tool.keyring("app").lock(limit).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(tool.keyring("other").lock(limit).unwrap().is_some());
        drop(lock);
        assert!(tool.keyring("app").lock(limit).unwrap().is_some());
        let unwritable = SystemKeyring { locks: Some(tool.program()), ..tool.keyring("app") };
        assert!(unwritable.lock(limit).unwrap().is_none());
    }

    #[tokio::test]
    async fn stores_of_two_directories_share_the_entry_of_the_program() {
        use crate::{FileStore, SealedStore, TokenStore as _};

        // The search is slow. Without a lock, the second store searches before the first one writes its key, and replaces the
        // key later.
        let search = "'search search'*) FOUND=$(cat ENTRY 2>/dev/null); sleep 0.2; \
            if test \"$FOUND\"; then echo 'secret = text'; fi;;";
        let tool = FakeTool::new("shared", &[LOOKUP, search, STORE].join("\n"));
        let open = |dir: &str| {
            let records = FileStore::open(tool.0.join(dir)).unwrap();
            SealedStore::with_keyring_limit(records, tool.keyring("app"), Duration::from_secs(60))
        };
        let (one, other) = (open("one"), open("other"));
        let record = "hunter2".into();
        let second = async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            other.save("key", &record).await
        };
        let (one, other) = tokio::join!(one.save("key", &record), second);
        one.and(other).unwrap();
        for dir in ["one", "other"] {
            let record = FileStore::open(tool.0.join(dir)).unwrap().load("key").await.unwrap().unwrap();
            assert!(crate::store::is_sealed(&record), "{dir}");
            assert_eq!(open(dir).load("key").await.unwrap().unwrap().expose(), "hunter2", "{dir}");
        }
    }
}
