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
/// | others | the Secret Service (GNOME Keyring, KWallet, KeePassXC), over the session bus of D-Bus | `secret-tool lookup service mcp-oauth account NAME` |
///
/// Without a session bus or without a Secret Service, such as on most servers, the keyring fails at once. A
/// [`SealedStore`](super::SealedStore) then stores plain files. [`SystemKeyring::kernel`] is the alternative on Linux.
///
/// If the entry may be in a locked collection of the Secret Service, the user is asked to unlock it. A dismissed prompt is
/// [`ErrorKind::Unavailable`]. The keyring writes no second entry then. Of several entries the oldest one counts.
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
    /// The Secret Service, on the bus with this address or on that of the session.
    #[cfg(all(unix, not(target_os = "macos")))]
    SecretService(Option<String>),
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
        let place = Place::SecretService(None);
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

    #[cfg(all(unix, not(target_os = "macos")))]
    fn secret_service<'a>(&'a self, bus: Option<&'a str>) -> super::secret_service::Entry<'a> {
        super::secret_service::Entry { bus, service: SERVICE, account: &self.name }
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
            Place::SecretService(bus) => self.secret_service(bus.as_deref()).read(),
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
            Place::SecretService(bus) => self.secret_service(bus.as_deref()).write(secret),
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
    use std::sync::Mutex;

    use mcp_test::secret_service::SecretService;
    use tracing_subscriber::filter::LevelFilter;

    use super::*;
    use crate::{FileStore, MemoryStore, SealedStore, TokenStore as _};

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

    /// The locks of an entry, in a directory of their own.
    struct Locks(PathBuf);

    impl Locks {
        fn new(name: &str) -> Self {
            Self(std::env::temp_dir().join(format!("mcp-oauth-keyring-{name}-{}", std::process::id())))
        }

        fn keyring(&self, service: &SecretService, name: &str) -> SystemKeyring {
            SystemKeyring {
                name: name.into(),
                place: Place::SecretService(Some(service.address().to_owned())),
                locks: Some(self.0.join("locks")),
            }
        }
    }

    impl Drop for Locks {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[tokio::test]
    async fn an_entry_of_the_secret_service_is_created_and_replaced() {
        let (service, locks) = (SecretService::start().unwrap(), Locks::new("entry"));
        let app = locks.keyring(&service, "app");
        assert_eq!(app.get().unwrap(), None);
        for secret in ["hunter1", "hunter2"] {
            app.set(&secret.into()).unwrap();
            assert_eq!(app.get().unwrap().unwrap().expose(), secret);
        }
        locks.keyring(&service, "other").set(&"hunter3".into()).unwrap();
        assert_eq!(app.get().unwrap().unwrap().expose(), "hunter2");
        assert_eq!((service.secrets(), service.prompts()), (vec!["hunter2".to_owned(), "hunter3".to_owned()], 0));
    }

    /// How the Secret Service treats its locked collection.
    #[derive(Debug, Clone, Copy)]
    enum Locked {
        Listed,
        Hidden,
    }

    #[tokio::test]
    async fn a_locked_entry_is_unlocked_by_the_user_or_kept() {
        for kind in [Locked::Listed, Locked::Hidden] {
            let (service, locks) = (SecretService::start().unwrap(), Locks::new(&format!("{kind:?}")));
            let app = locks.keyring(&service, "app");
            let key = "A".repeat(43);
            app.set(&key.as_str().into()).unwrap();
            service.lock();
            service.hide_locked_entries(matches!(kind, Locked::Hidden));
            service.dismiss_prompts(true);
            for result in [app.get().map(drop), app.set(&"hunter2".into())] {
                let error = result.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Unavailable, "{kind:?}: {error}");
                assert!(error.to_string().contains("the keyring is locked"), "{kind:?}: {error}");
            }
            let store = SealedStore::new(MemoryStore::new(), app.clone());
            store.save("key", &"record".into()).await.unwrap();
            assert!(!store.is_sealing().await);
            assert_eq!((service.secrets(), service.prompts()), (vec![key.clone()], 3), "{kind:?}");

            service.dismiss_prompts(false);
            let store = SealedStore::new(MemoryStore::new(), app.clone());
            assert!(store.is_sealing().await, "{kind:?}");
            assert_eq!((service.secrets(), service.prompts()), (vec![key], 4), "{kind:?}");
        }
    }

    #[tokio::test]
    async fn a_prompt_that_stays_open_leads_to_plain_records_and_one_warning_after_three_seconds() {
        let (service, locks) = (SecretService::start().unwrap(), Locks::new("open-prompt"));
        let app = locks.keyring(&service, "app");
        let key = "A".repeat(43);
        app.set(&key.as_str().into()).unwrap();
        service.lock();
        service.ignore_prompts(true);
        std::fs::create_dir_all(&locks.0).unwrap();
        let log = locks.0.join("log");
        let file = Mutex::new(std::fs::File::create(&log).unwrap());
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_max_level(LevelFilter::WARN).with_writer(file);
        let _guard = tracing::subscriber::set_default(subscriber.finish());
        let records = MemoryStore::new();
        let store = SealedStore::new(records.clone(), app);
        // The clock of the test moves at once to the end of the wait. The keyring has a thread with another clock.
        tokio::time::pause();
        let start = tokio::time::Instant::now();
        for (record, waited) in [("hunter1", 3), ("hunter2", 3)] {
            store.save("key", &record.into()).await.unwrap();
            assert_eq!(start.elapsed().as_secs(), waited, "only the first record waits for the keyring");
            assert_eq!(records.load("key").await.unwrap().unwrap().expose(), record);
        }
        tokio::time::resume();
        let prompted = async {
            while service.prompts() == 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), prompted).await.unwrap();
        assert!(!store.is_sealing().await);
        assert_eq!((service.secrets(), service.prompts()), (vec![key], 1));
        let log = std::fs::read_to_string(log).unwrap();
        assert_eq!(log.lines().count(), 1, "{log}");
        assert!(log.contains("did not answer in 3s") && !log.contains("hunter"), "{log}");
    }

    #[tokio::test]
    async fn the_oldest_of_several_entries_counts() {
        let (service, locks) = (SecretService::start().unwrap(), Locks::new("oldest"));
        for secret in ["hunter1", "hunter2", "hunter3"] {
            service.insert([("service", SERVICE), ("account", "app")], secret);
        }
        assert_eq!(locks.keyring(&service, "app").get().unwrap().unwrap().expose(), "hunter1");
    }

    #[tokio::test]
    async fn a_bus_without_a_usable_service_is_an_error_with_its_cause() {
        let (service, locks) = (SecretService::start().unwrap(), Locks::new("unusable"));
        let app = locks.keyring(&service, "app");
        service.stop_service();
        assert!(app.get().unwrap_err().to_string().contains("no Secret Service runs"));
        drop(service);
        let start = std::time::Instant::now();
        let error = app.get().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Store);
        assert!(error.to_string().contains("there is no session bus of D-Bus"), "{error}");
        assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
    }

    #[tokio::test]
    async fn stores_of_two_directories_share_the_entry() {
        let (service, locks) = (SecretService::start().unwrap(), Locks::new("shared"));
        // Without a lock, the second store searches before the first one creates its entry.
        service.delay_searches(Duration::from_millis(200));
        let open = |dir: &str| {
            let records = FileStore::open(locks.0.join(dir)).unwrap();
            SealedStore::with_keyring_limit(records, locks.keyring(&service, "app"), Duration::from_secs(60))
        };
        let (one, other) = (open("one"), open("other"));
        let record = "hunter2".into();
        let (first, second) = tokio::join!(one.save("key", &record), other.save("key", &record));
        first.and(second).unwrap();
        assert_eq!(service.secrets().len(), 1);
        for dir in ["one", "other"] {
            let record = FileStore::open(locks.0.join(dir)).unwrap().load("key").await.unwrap().unwrap();
            assert!(crate::store::is_sealed(&record), "{dir}");
            assert_eq!(open(dir).load("key").await.unwrap().unwrap().expose(), "hunter2", "{dir}");
        }
    }

    #[test]
    fn only_one_process_creates_an_entry() {
        let (service, locks) = (SecretService::start().unwrap(), Locks::new("lock"));
        let limit = Duration::from_millis(50);
        let lock = locks.keyring(&service, "app").lock(limit).unwrap().unwrap();
        let error = locks.keyring(&service, "app").lock(limit).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(locks.keyring(&service, "other").lock(limit).unwrap().is_some());
        drop(lock);
        assert!(locks.keyring(&service, "app").lock(limit).unwrap().is_some());
        let file = locks.0.join("file");
        std::fs::write(&file, "").unwrap();
        let unwritable = SystemKeyring { locks: Some(file), ..locks.keyring(&service, "app") };
        assert!(unwritable.lock(limit).unwrap().is_none());
    }
}
