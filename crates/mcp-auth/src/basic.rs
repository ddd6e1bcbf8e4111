//! User names and passwords.

use std::{collections::HashMap, fmt, future::Future, pin::Pin, sync::Arc, time::Duration};

use mcp_protocol::{Challenge, Principal, auth::Secret};

use crate::{
    authenticator::{AuthRequest, Authenticated, Authenticator, BoxFuture, Rejection, with_scheme},
    credentials,
    crypto::{self, Digest},
    error::ConfigError,
    limit::CheckLimit,
    password::{HashPool, PasswordDigest},
    verified::{NO_PRINCIPAL, Verified, invalid},
};

type Checking = Pin<Box<dyn Future<Output = Result<Option<Principal>, Rejection>> + Send>>;
type Check = dyn Fn(String, Secret) -> Checking + Send + Sync;
/// A check on a task of its own.
type Verifying = Pin<Box<dyn Future<Output = Result<Principal, Rejection>> + Send>>;

/// Authenticates clients by user names and passwords (`Authorization: Basic …`, RFC 7617).
///
/// The provider computes at most two digests at once, lets 64 requests wait for five seconds, and answers further requests
/// with 503. At most four of these requests may have one user name. The provider remembers valid passwords for a minute and
/// invalid ones for five seconds. Passwords that were valid at their last check have a computation of their own, so that guesses
/// do not lock their users out.
///
/// The time of a request does not show whether a user name exists: each request computes one digest of each form that the
/// users have. Users whose digests all have one form, such as that of [`hash_password`](crate::hash_password), need one.
///
/// ```
/// use mcp_auth::{Basic, hash_password};
/// use mcp_protocol::Principal;
///
/// let basic = Basic::new("tools").user("ann", &hash_password("hunter2")?, Principal::new("ann"))?;
/// # let _ = basic;
/// # Ok::<_, mcp_auth::ConfigError>(())
/// ```
pub struct Basic {
    realm: String,
    users: HashMap<String, (PasswordDigest, Principal)>,
    /// One digest of each form that the users have.
    forms: Vec<PasswordDigest>,
    check: Option<Arc<Check>>,
    limit: CheckLimit,
    pool: HashPool,
    verified: Verified,
}

/// The digest of no password, for user names that are unknown while there are no users.
const NO_PASSWORD: &str =
    "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

impl Basic {
    /// Returns a provider without users. Programs show the realm to the user.
    pub fn new(realm: impl Into<String>) -> Self {
        Self {
            realm: realm.into(),
            users: HashMap::new(),
            forms: Vec::new(),
            check: None,
            limit: CheckLimit::new(),
            pool: HashPool::new(),
            verified: Verified::new(),
        }
    }

    /// Adds a user with the digest of the password: `$argon2id$…` of [`hash_password`](crate::hash_password),
    /// `pbkdf2-sha256$iterations$salt$hash`, or the SHA-256 in 64 hexadecimal digits. Digests that are easy to attack are
    /// accepted with a warning in the log.
    ///
    /// # Errors
    /// If the digest has another form, or the name contains a colon or was added before.
    pub fn user(mut self, name: &str, digest: &str, principal: Principal) -> Result<Self, ConfigError> {
        if name.contains(':') {
            return Err(ConfigError::new("the name of a user must not contain a colon"));
        }
        let digest = PasswordDigest::parse(digest)?;
        if let Some((_, known)) = self.users.get(name) {
            let (subject, known) = (&principal.subject, &known.subject);
            return Err(ConfigError::new(format!(
                "the user `{name}` of `{subject}` was added before, for `{known}`: each user needs one password"
            )));
        }
        if digest.is_old() {
            tracing::warn!(user = name, "the digest of a password is easy to attack: hash the password again");
        }
        if self.forms.iter().all(|known| known.form() != digest.form()) {
            self.forms.push(digest.clone());
        }
        self.users.insert(name.to_owned(), (digest, with_scheme(principal, "Basic")));
        Ok(self)
    }

    /// Checks users that are not configured with a function of the user name and the password. It returns `None` for a
    /// wrong password or an unknown user, and an error for an outage. A check has ten seconds, and at most 64 checks run at
    /// once.
    ///
    /// The time of the function shows which names it knows, unless it does the same work for an unknown name. It also shows
    /// which names are configured, unless it takes as long as their digests.
    #[must_use]
    pub fn verify_with<F, Fut>(mut self, verify: F) -> Self
    where
        F: Fn(String, Secret) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Option<Principal>, Rejection>> + Send + 'static,
    {
        self.check = Some(Arc::new(move |user, password| Box::pin(verify(user, password))));
        self
    }

    /// Sets the longest time for which valid passwords are remembered, at most an hour. The default is a minute. With zero,
    /// each request computes a digest.
    #[must_use]
    pub fn remember_for(mut self, time: Duration) -> Self {
        self.verified.remember_for(time);
        self
    }

    fn verify(&self, user: String, password: Secret, was_valid: bool) -> Verifying {
        let known = self.users.get(&user);
        if known.is_none()
            && let Some(check) = &self.check
        {
            let (check, limit) = (Arc::clone(check), self.limit.clone());
            return Box::pin(async move {
                let principal = limit.run(|| check(user, password)).await?.ok_or_else(|| invalid(NO_PRINCIPAL))?;
                Ok(with_scheme(principal, "Basic"))
            });
        }
        // The digest of the user takes the place of the digest in its form.
        let own = known.and_then(|(digest, _)| self.forms.iter().position(|form| form.form() == digest.form()));
        let mut digests = self.forms.clone();
        if let (Some((digest, _)), Some(own)) = (known, own) {
            digests[own] = digest.clone();
        }
        let (pool, principal) = (self.pool.clone(), known.map(|(_, principal)| principal.clone()));
        Box::pin(async move {
            if digests.is_empty() {
                digests.extend(PasswordDigest::parse(NO_PASSWORD).ok());
            }
            let is_valid = pool.verify((!was_valid).then_some(user), digests, own, password).await?;
            principal.filter(|_| is_valid).ok_or_else(|| invalid("the user name or the password is wrong"))
        })
    }
}

fn digest_of(user: &str, password: &Secret) -> Digest {
    crypto::digest(&[user.as_bytes(), password.expose().as_bytes()])
}

impl Authenticator for Basic {
    fn authenticate<'a>(&'a self, request: &'a AuthRequest<'a>) -> BoxFuture<'a, Result<Authenticated, Rejection>> {
        Box::pin(async move {
            let (user, password) = credentials::basic(request.headers)?.ok_or(Rejection::Missing)?;
            let digest = digest_of(&user, &password);
            let was_valid = self.verified.was_valid(&digest);
            let principal = self.verified.check(digest, || self.verify(user, password, was_valid)).await?;
            Ok(Authenticated::new(principal))
        })
    }

    fn authenticate_now(&self, request: &AuthRequest<'_>) -> Option<Result<Authenticated, Rejection>> {
        let (user, password) = match credentials::basic(request.headers) {
            Ok(Some(credentials)) => credentials,
            Ok(None) => return Some(Err(Rejection::Missing)),
            Err(rejection) => return Some(Err(rejection)),
        };
        Some(self.verified.known(&digest_of(&user, &password))?.map(Authenticated::new))
    }

    fn challenges(&self) -> Vec<Challenge> {
        vec![Challenge::new("Basic").with_realm(self.realm.clone()).with_param("charset", "UTF-8")]
    }
}

impl fmt::Debug for Basic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Basic").field("realm", &self.realm).field("users", &self.users.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::atomic::Ordering, time::Duration};

    use base64::prelude::{BASE64_STANDARD, Engine as _};
    use http::{HeaderMap, Method, header};

    use super::*;
    use crate::{clock::Clock, hash_password};

    async fn check(basic: &Basic, user: &str, password: &str) -> Result<String, Rejection> {
        let mut headers = HeaderMap::new();
        let value = format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:{password}")));
        headers.insert(header::AUTHORIZATION, value.parse().unwrap());
        let request = AuthRequest::new(&Method::POST, "https://mcp.example.com/mcp", &headers);
        basic.authenticate(&request).await.map(|authenticated| authenticated.principal.subject.clone())
    }

    fn users() -> Basic {
        // 1,000 iterations keep the test fast. The last digest is the SHA-256 of the password.
        let mut hash = [0; 32];
        let iterations = std::num::NonZeroU32::new(1_000).unwrap();
        ring::pbkdf2::derive(ring::pbkdf2::PBKDF2_HMAC_SHA256, iterations, b"saltsalt", b"hunter3", &mut hash);
        let pbkdf2 =
            format!("pbkdf2-sha256$1000${}${}", BASE64_STANDARD.encode("saltsalt"), BASE64_STANDARD.encode(hash));
        Basic::new("tools")
            .user("ann", &hash_password("hunter2").unwrap(), Principal::new("ann"))
            .and_then(|basic| basic.user("bob", &pbkdf2, Principal::new("bob")))
            .and_then(|basic| {
                let digest = "f52fbd32b2b3b86ff88ef6c490628285f482af15ddcb29541f94bcf526a3f6c7";
                basic.user("cid", digest, Principal::new("cid"))
            })
            .unwrap()
    }

    #[tokio::test]
    async fn passwords_are_verified_in_each_form() {
        let basic = users();
        for (user, password, expected) in [
            ("ann", "hunter2", Ok("ann")),
            ("ann", "hunter3", Err(Rejection::Invalid)),
            ("ann", "", Err(Rejection::Invalid)),
            ("bob", "hunter3", Ok("bob")),
            ("bob", "hunter2", Err(Rejection::Invalid)),
            ("cid", "hunter2", Ok("cid")),
            ("cid", "hunter3", Err(Rejection::Invalid)),
            ("dan", "hunter2", Err(Rejection::Invalid)),
            ("", "", Err(Rejection::Invalid)),
        ] {
            let got = check(&basic, user, password).await;
            assert_eq!(got, expected.map(str::to_owned), "{user} {password}");
        }
        let [challenge] = &basic.challenges()[..] else { panic!("one challenge") };
        assert_eq!(challenge.to_string(), r#"Basic realm="tools", charset="UTF-8""#);
    }

    #[tokio::test]
    async fn unknown_users_cost_as_many_computations_as_known_users() {
        for basic in [users(), Basic::new("empty")] {
            let mut costs = Vec::new();
            for (user, password) in [("ann", "wrong"), ("nobody", "wrong"), ("nobody", "hunter2"), ("", "")] {
                let before = basic.pool.computed.load(Ordering::Relaxed);
                assert_eq!(check(&basic, user, password).await, Err(Rejection::Invalid));
                costs.push(basic.pool.computed.load(Ordering::Relaxed) - before);
            }
            let forms = basic.forms.len().max(1);
            assert_eq!(costs, [forms; 4]);
        }
    }

    #[tokio::test]
    async fn results_are_remembered() {
        let (clock, advance) = Clock::manual(std::time::SystemTime::UNIX_EPOCH);
        let mut basic = users();
        basic.verified.clock = clock;
        for (password, seconds, computations) in [
            ("hunter2", 0, 3),
            ("hunter2", 59, 3),
            ("hunter2", 1, 6),
            ("wrong", 0, 9),
            ("wrong", 4, 9),
            ("wrong", 1, 12),
        ] {
            advance(Duration::from_secs(seconds));
            let _ = check(&basic, "ann", password).await;
            assert_eq!(basic.pool.computed.load(Ordering::Relaxed), computations, "{password} {seconds}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn too_many_passwords_at_once_are_unavailable() {
        let basic = Arc::new(users());
        // No computation begins while the test holds all permits.
        let permits = basic.pool.hold().await;
        let mut checks = tokio::task::JoinSet::new();
        for number in 0..200 {
            let basic = Arc::clone(&basic);
            checks.spawn(async move { check(&basic, &format!("bob {number}"), "wrong").await });
        }
        for _ in 0..200 - 66 {
            let result = checks.join_next().await.unwrap().unwrap();
            assert!(matches!(result, Err(Rejection::Unavailable { .. })), "{result:?}");
        }
        assert_eq!(basic.pool.computed.load(Ordering::Relaxed), 0);
        drop(permits);
        for result in checks.join_all().await {
            assert_eq!(result, Err(Rejection::Invalid));
        }
        assert_eq!(basic.pool.computed.load(Ordering::Relaxed), 66 * basic.forms.len());
        assert_eq!(check(&basic, "bob", "hunter3").await.unwrap(), "bob");
    }

    #[tokio::test(start_paused = true)]
    async fn one_user_name_does_not_occupy_the_queue() {
        let basic = Arc::new(users());
        let permits = basic.pool.hold().await;
        let mut checks = tokio::task::JoinSet::new();
        for number in 0..10 {
            let basic = Arc::clone(&basic);
            checks.spawn(async move { check(&basic, "bob", &format!("wrong {number}")).await });
        }
        for _ in 0..6 {
            let result = checks.join_next().await.unwrap().unwrap();
            assert!(matches!(result, Err(Rejection::Unavailable { .. })), "{result:?}");
        }
        drop(permits);
        assert_eq!(check(&basic, "ann", "hunter2").await.unwrap(), "ann");
        for result in checks.join_all().await {
            assert_eq!(result, Err(Rejection::Invalid));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn guesses_do_not_lock_out_a_user_whose_result_has_ended() {
        let (clock, advance) = Clock::manual(std::time::SystemTime::UNIX_EPOCH);
        let mut basic = users();
        basic.verified.clock = clock;
        let basic = Arc::new(basic);
        assert_eq!(check(&basic, "bob", "hunter3").await.unwrap(), "bob");
        advance(Duration::from_secs(61));
        let permits = basic.pool.hold().await;
        let mut guesses = tokio::task::JoinSet::new();
        for number in 0..200 {
            let basic = Arc::clone(&basic);
            let user = if number < 10 { "bob".to_owned() } else { format!("user {number}") };
            guesses.spawn(async move { check(&basic, &user, &format!("wrong {number}")).await });
        }
        for _ in 0..200 - 66 {
            let result = guesses.join_next().await.unwrap().unwrap();
            assert!(matches!(result, Err(Rejection::Unavailable { .. })), "{result:?}");
        }
        // All places are taken, and no computation of a guess ends.
        assert_eq!(check(&basic, "bob", "hunter3").await.unwrap(), "bob");
        assert!(matches!(check(&basic, "ann", "hunter2").await, Err(Rejection::Unavailable { .. })));
        drop(permits);
        guesses.join_all().await;
    }

    #[tokio::test]
    async fn a_function_checks_other_users() {
        let basic = users().verify_with(|user, password| async move {
            match (user.as_str(), password.expose()) {
                ("eve", "hunter4") => Ok(Some(Principal::new("eve"))),
                ("away", _) => Err(Rejection::Unavailable { retry_after: Duration::from_secs(5) }),
                _ => Ok(None),
            }
        });
        assert_eq!(check(&basic, "eve", "hunter4").await.unwrap(), "eve");
        assert_eq!(check(&basic, "eve", "hunter2").await, Err(Rejection::Invalid));
        assert_eq!(check(&basic, "ann", "hunter4").await, Err(Rejection::Invalid));
        assert!(matches!(check(&basic, "away", "x").await, Err(Rejection::Unavailable { .. })));
    }

    #[test]
    fn invalid_digests_are_errors() {
        let hash = "A".repeat(44);
        for digest in [
            "",
            "hunter2",
            "$argon2id$",
            "$argon2i$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
            "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA",
            "$argon2id$v=19$m=4194304,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
            "$argon2id$v=19$m=131072,t=9,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
            "$argon2id$v=19$m=19456,t=1000,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
            "pbkdf2-sha256$0$c2FsdHNhbHQ=$x",
            "pbkdf2-sha256$1000$c2FsdHNhbHQ=",
            &format!("pbkdf2-sha256$99999999$c2FsdHNhbHQ=${hash}"),
            &format!("pbkdf2-sha256$1000$YQ==${hash}"),
            &format!("pbkdf2-sha256$1000$c2FsdHNhbHQ=${}", &hash[..20]),
            &"g".repeat(64),
        ] {
            let result = Basic::new("tools").user("ann", digest, Principal::new("ann"));
            let text = result.map(|_| ()).unwrap_err().to_string();
            assert!(text.starts_with("the digest must be"), "{digest}: {text}");
        }
        Basic::new("tools").user("a:b", &"0".repeat(64), Principal::new("ann")).unwrap_err();
    }

    #[test]
    fn a_user_with_two_passwords_is_an_error() {
        let text = users().user("ann", &"0".repeat(64), Principal::new("eve")).unwrap_err().to_string();
        assert_eq!(text, "the user `ann` of `eve` was added before, for `ann`: each user needs one password");
    }
}
