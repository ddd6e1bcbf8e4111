//! Tests of the limit of failed authentications.
#![allow(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::{
    net::SocketAddr,
    pin::Pin,
    sync::atomic::AtomicUsize,
    task::{Context, Poll, Waker},
    time::Duration,
};

use http::header;

use super::{
    bucket::{ACCEPTED, ACCEPTED_OF_PRINCIPAL},
    *,
};

const KEY: HeaderName = HeaderName::from_static("x-api-key");
const DPOP: HeaderName = HeaderName::from_static("dpop");
/// A check that accepts the credentials of one principal.
const ACCEPT: Verdict = Verdict::Accepted { principal: 1 };

fn attempts(count: u32, seconds: u64) -> Attempts {
    Attempts::new(AttemptLimit { count, per: Duration::from_secs(seconds) })
}

/// The credentials of a request in one header.
fn one(tag: u64) -> Credentials {
    Credentials { tag, are_several: false }
}

fn address(text: &str) -> IpAddr {
    let mut extensions = Extensions::new();
    extensions.insert(PeerAddr(SocketAddr::new(text.parse().unwrap(), 1)));
    attempts(1, 1).peer(&extensions).unwrap()
}

fn wait(attempts: &Attempts, peer: IpAddr) -> Option<u64> {
    match attempts.begin(peer, one(0)) {
        Ok(attempt) => {
            attempt.end(Verdict::Uncounted);
            None
        }
        Err(Rejection::TooManyFailures { retry_after }) => Some(retry_after.as_secs()),
        Err(other) => panic!("{other:?}"),
    }
}

/// Ends a check of new credentials.
fn end(attempts: &Attempts, peer: IpAddr, tag: u64, verdict: Verdict) {
    attempts.begin(peer, one(tag)).map_err(|rejection| format!("{rejection}")).unwrap().end(verdict);
}

fn fail(attempts: &Attempts, peer: IpAddr) {
    end(attempts, peer, 0, Verdict::Failed);
}

/// The headers and the extensions of a request.
fn request(headers: &[(&'static str, &str)]) -> (HeaderMap, Extensions) {
    let headers = headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
    let mut extensions = Extensions::new();
    extensions.insert(PeerAddr(SocketAddr::from(([192, 0, 2, 1], 1))));
    (HeaderMap::from_iter(headers), extensions)
}

fn poll<T>(future: Pin<&mut impl Future<Output = T>>) -> Poll<T> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[tokio::test(start_paused = true)]
async fn failures_are_forgiven_at_a_constant_rate() {
    let (attempts, peer) = (attempts(3, 30), address("192.0.2.1"));
    for _ in 0..3 {
        assert_eq!(wait(&attempts, peer), None);
        fail(&attempts, peer);
    }
    assert_eq!(wait(&attempts, peer), Some(10));
    tokio::time::advance(Duration::from_secs(9)).await;
    assert_eq!(wait(&attempts, peer), Some(1));
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(wait(&attempts, peer), None);
    fail(&attempts, peer);
    assert_eq!(wait(&attempts, peer), Some(10));
    tokio::time::advance(Duration::from_secs(3600)).await;
    for _ in 0..3 {
        assert_eq!(wait(&attempts, peer), None);
        fail(&attempts, peer);
    }
    assert_eq!(wait(&attempts, peer), Some(10));
}

#[tokio::test(start_paused = true)]
async fn many_failures_of_accepted_credentials_cost_at_most_twice_the_time() {
    let (attempts, peer) = (attempts(3, 30), address("192.0.2.1"));
    fail(&attempts, peer);
    end(&attempts, peer, 7, ACCEPT);
    for _ in 0..1_000 {
        end(&attempts, peer, 7, Verdict::Failed);
    }
    assert_eq!(wait(&attempts, peer), Some(40));
}

#[tokio::test(start_paused = true)]
async fn parallel_guesses_do_not_exceed_the_limit() {
    let attempts = attempts(3, 30);
    let (checked, names) = (AtomicUsize::new(0), [KEY]);
    let requests: Vec<_> = (0..1_024).map(|number| request(&[("x-api-key", &format!("guess-{number}"))])).collect();
    let mut guesses: Vec<_> = requests
        .iter()
        .map(|(headers, extensions)| {
            let check = async {
                checked.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
                Err(Rejection::Invalid)
            };
            Box::pin(attempts.limited(headers, &names, extensions, check))
        })
        .collect();
    let refused = guesses.iter_mut().filter_map(|guess| match poll(guess.as_mut()) {
        Poll::Ready(result) => Some(result),
        Poll::Pending => None,
    });
    let refused: Vec<_> = refused.collect();
    assert!(refused.iter().all(|result| matches!(result, Err(Rejection::TooManyFailures { .. }))), "{refused:?}");
    assert_eq!((refused.len(), checked.load(Ordering::Relaxed)), (1_021, 3));
    drop(guesses);
    // The dropped checks count as failed.
    assert_eq!(wait(&attempts, address("192.0.2.1")), Some(10));
}

#[tokio::test(start_paused = true)]
async fn accepted_and_uncounted_checks_return_their_reserved_failures() {
    let attempts = attempts(2, 30);
    let peer = address("192.0.2.1");
    // Requests with equal credentials share one reserved failure.
    let mut parallel: Vec<_> =
        (0..100).map(|_| attempts.begin(peer, one(7)).unwrap_or_else(|_| panic!("too many"))).collect();
    parallel.push(attempts.begin(peer, one(8)).unwrap_or_else(|_| panic!("too many")));
    assert!(attempts.begin(peer, one(9)).is_err());
    for (number, attempt) in parallel.into_iter().enumerate() {
        attempt.end(if number % 2 == 0 { ACCEPT } else { Verdict::Uncounted });
    }
    assert_eq!(attempts.table.lock().young.len(), 0);
    for tag in 0..100 {
        end(&attempts, peer, tag, ACCEPT);
    }
}

#[tokio::test(start_paused = true)]
async fn each_rejection_of_several_credentials_counts() {
    let expired = || Rejection::Expired;
    let away = || Rejection::Unavailable { retry_after: Duration::from_secs(1) };
    let fresh = || Rejection::FreshProof { nonce: http::HeaderValue::from_static("n") };
    let both: &[(&str, &str)] = &[("x-api-key", "guess"), ("authorization", "Bearer forged")];
    let one: &[(&str, &str)] = &[("authorization", "DPoP token"), ("dpop", "proof")];
    let rejections: [fn() -> Rejection; 5] = [expired, away, fresh, || Rejection::Forbidden, || Rejection::Missing];
    for rejection in rejections {
        for headers in [both, one] {
            let attempts = attempts(1, 30);
            let (headers, extensions) = request(headers);
            let check = async { Err(rejection()) };
            let result = attempts.limited(&headers, &[KEY, DPOP, header::AUTHORIZATION], &extensions, check).await;
            assert_eq!(result.unwrap_err(), rejection());
            let counts = headers.contains_key(KEY) && rejection() != Rejection::Missing;
            assert_eq!(wait(&attempts, address("192.0.2.1")).is_some(), counts, "{:?}", rejection());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn rejected_credentials_beside_accepted_ones_count_once() {
    let guess =
        |number: usize| [("authorization", "Bearer token".to_owned()), ("x-api-key", format!("guess-{number}"))];
    let attempts = attempts(2, 60);
    let check = async |headers: &[(&'static str, &str)]| {
        let (headers, extensions) = request(headers);
        let mut authenticated = Authenticated::new(Principal::new("ann"));
        authenticated.has_rejected_credentials = true;
        attempts.limited(&headers, &[KEY, header::AUTHORIZATION], &extensions, async { Ok(authenticated) }).await
    };
    for (number, is_allowed) in [(0, true), (1, true), (2, false), (0, true), (0, true), (3, false)] {
        let headers = guess(number);
        let headers = headers.each_ref().map(|(name, value)| (*name, value.as_str()));
        assert_eq!(check(&headers).await.is_ok(), is_allowed, "{number}");
    }
    // One header has one credential, so the rejection is that of another provider of the same scheme.
    tokio::time::advance(Duration::from_secs(60)).await;
    for _ in 0..10 {
        assert!(check(&[("authorization", "Bearer token")]).await.is_ok());
    }
}

#[tokio::test(start_paused = true)]
async fn credentials_that_were_accepted_stay_usable() {
    let (attempts, peer) = (attempts(1, 60), address("192.0.2.1"));
    // Without failures of the address, nothing is stored.
    end(&attempts, peer, 7, ACCEPT);
    assert_eq!(attempts.table.lock().young.len(), 0);
    fail(&attempts, peer);
    assert!(attempts.begin(peer, one(7)).is_err());
    // Each caller behind a shared address has credentials of its own.
    for caller in 0..ACCEPTED as u64 {
        tokio::time::advance(Duration::from_secs(60)).await;
        end(&attempts, peer, caller, Verdict::Accepted { principal: caller });
    }
    fail(&attempts, peer);
    for caller in 0..ACCEPTED as u64 {
        assert!(attempts.begin(peer, one(caller)).is_ok(), "{caller}");
    }
    // The next credentials replace those that were used least recently.
    assert!(attempts.begin(peer, one(0)).is_ok());
    tokio::time::advance(Duration::from_secs(300)).await;
    end(&attempts, peer, 1_000, Verdict::Accepted { principal: 1_000 });
    fail(&attempts, peer);
    for (tag, is_usable) in [(0, true), (1, false), (2, true), (1_000, true)] {
        assert_eq!(attempts.begin(peer, one(tag)).is_ok(), is_usable, "{tag}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_principal_with_many_credentials_replaces_only_its_own() {
    let (attempts, peer) = (attempts(1, 60), address("192.0.2.1"));
    fail(&attempts, peer);
    let other = Verdict::Accepted { principal: 2 };
    for tag in 1..=10 {
        tokio::time::advance(Duration::from_secs(60)).await;
        end(&attempts, peer, tag, other);
    }
    for (first, verdict) in [(1_000, ACCEPT), (5_000, Verdict::PartlyAccepted { principal: 1 })] {
        for tag in first..first + 2 * ACCEPTED as u64 {
            tokio::time::advance(Duration::from_secs(60)).await;
            end(&attempts, peer, tag, verdict);
        }
        tokio::time::advance(Duration::from_secs(60)).await;
        fail(&attempts, peer);
        let is_usable = |tag: &u64| {
            attempts.begin(peer, one(*tag)).is_ok_and(|attempt| {
                attempt.end(ACCEPT);
                true
            })
        };
        assert!((1..=10).all(|tag| is_usable(&tag)), "{verdict:?}");
        let kept = (first..first + 2 * ACCEPTED as u64).filter(is_usable).count();
        assert_eq!(kept, ACCEPTED_OF_PRINCIPAL, "{verdict:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_outage_takes_no_failures_from_the_address() {
    let (attempts, peer) = (attempts(2, 60), address("192.0.2.1"));
    // Each caller behind the address has a token of its own. A client that repeats its request costs nothing again.
    for tag in (1..=20).chain(1..=20) {
        end(&attempts, peer, tag, Verdict::Unchecked);
    }
    // Twenty tokens are the whole budget of two failures. It grows by a token in three seconds.
    assert_eq!(wait(&attempts, peer), Some(3));
    assert!(attempts.begin(peer, one(1)).is_ok_and(|attempt| {
        attempt.end(Verdict::Unchecked);
        true
    }));
    tokio::time::advance(Duration::from_secs(3)).await;
    // After the outage, each accepted token returns its part, and the address still has both failures.
    for tag in 21..=40 {
        end(&attempts, peer, tag, ACCEPT);
    }
    for tag in [50, 51] {
        end(&attempts, peer, tag, Verdict::Failed);
    }
    assert_eq!(wait(&attempts, peer), Some(30));
}

#[tokio::test(start_paused = true)]
async fn guesses_during_an_outage_are_limited() {
    let (attempts, peer) = (attempts(2, 60), address("192.0.2.1"));
    let checked = |attempts: &Attempts, tags: std::ops::Range<u64>| {
        let is_checked = |tag: &u64| match attempts.begin(peer, one(*tag)) {
            Ok(attempt) => {
                attempt.end(Verdict::Unchecked);
                true
            }
            Err(_) => false,
        };
        tags.filter(is_checked).count()
    };
    assert_eq!(checked(&attempts, 0..1_000), 20);
    tokio::time::advance(Duration::from_secs(30)).await;
    assert_eq!(checked(&attempts, 1_000..2_000), 10);
    // Parallel guesses do not exceed the budget.
    tokio::time::advance(Duration::from_secs(60)).await;
    let parallel: Vec<_> = (2_000..2_100).filter_map(|tag| attempts.begin(peer, one(tag)).ok()).collect();
    assert_eq!(parallel.len(), 2);
    // Wrong credentials count fully, also if an outage left them unchecked.
    drop(parallel);
    assert_eq!(wait(&attempts, peer), Some(30));
}

#[tokio::test(start_paused = true)]
async fn callers_with_proofs_stay_usable() {
    let (attempts, peer) = (attempts(1, 60), address("192.0.2.1"));
    fail(&attempts, peer);
    tokio::time::advance(Duration::from_secs(60)).await;
    for number in 0..3 {
        let (headers, extensions) = request(&[("authorization", "DPoP token"), ("dpop", &format!("proof-{number}"))]);
        let check = async { Ok(Authenticated::new(Principal::new("ann"))) };
        let result = attempts.limited(&headers, &[header::AUTHORIZATION, DPOP], &extensions, check).await;
        assert!(result.is_ok(), "{number}");
        if number == 0 {
            fail(&attempts, peer);
            assert!(wait(&attempts, peer).is_some());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_number_of_addresses_is_bounded_and_used_addresses_stay() {
    let (attempts, known) = (attempts(1, 3600), address("192.0.2.1"));
    fail(&attempts, known);
    for number in 0..4 * HALF as u32 {
        fail(&attempts, IpAddr::from(number.to_be_bytes()));
        assert!(wait(&attempts, known).is_some(), "{number}");
    }
    let table = attempts.table.lock();
    assert!(table.young.len() <= HALF && table.old.len() <= HALF);
}

#[test]
fn addresses_of_one_host_count_as_one() {
    for (first, second, expected) in [
        ("192.0.2.1", "192.0.2.1", true),
        ("192.0.2.1", "192.0.2.2", false),
        ("192.0.2.1", "::ffff:192.0.2.1", true),
        ("2001:db8:1:2::1", "2001:db8:1:2:ffff::7", true),
        ("2001:db8:1:2::1", "2001:db8:1:3::1", false),
        ("::1", "127.0.0.1", false),
    ] {
        assert_eq!(address(first) == address(second), expected, "{first} {second}");
    }
}

#[test]
fn tags_depend_on_each_header_with_credentials() {
    let attempts = attempts(1, 1);
    let of = |headers: &[(&'static str, &str)]| {
        attempts.credentials(&request(headers).0, &[KEY, DPOP, header::AUTHORIZATION])
    };
    assert_eq!(of(&[]), None);
    assert_eq!(of(&[("x-other", "a")]), None);
    assert_eq!(of(&[("dpop", "a")]), None);
    let rows = [
        (of(&[("x-api-key", "a")]), false),
        (of(&[("x-api-key", "b")]), false),
        (of(&[("authorization", "a")]), false),
        (of(&[("x-api-key", "a"), ("authorization", "a")]), true),
    ];
    for (place, (one, are_several)) in rows.iter().enumerate() {
        assert!(rows.iter().filter(|(other, _)| other == one).count() == 1, "{place}");
        assert_eq!(one.unwrap().are_several, *are_several, "{place}");
    }
    assert_eq!(of(&[("x-api-key", "a"), ("dpop", "a")]), rows[0].0);
}
