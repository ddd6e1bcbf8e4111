//! Tests of parked calls, with the paused clock of the runtime.

use std::{
    future::pending,
    pin::pin,
    sync::atomic::{AtomicUsize, Ordering},
};

use futures_poll::poll_once;
use mcp_protocol::InputRequest;
use serde_json::{Value, json};
use tokio::time::{advance, timeout};

use super::*;

type Calls = ParkedCalls<String, &'static str>;

impl Parkable for String {
    fn bytes(&self) -> usize {
        self.len()
    }
}

/// The clients without a principal.
static ANYONE: Holder = Holder { principal: None, authority: None };
const MINUTE: Duration = Duration::from_secs(60);

mod futures_poll {
    use std::{future::poll_fn, pin::Pin, task::Poll};

    /// Polls a future once.
    pub(super) async fn poll_once<F: Future>(mut future: Pin<&mut F>) -> Option<F::Output> {
        poll_fn(|cx| match future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending => Poll::Ready(None),
        })
        .await
    }
}

fn calls() -> Calls {
    ParkedCalls::new(ParkedLimits::default())
}

/// A client without credentials of its own at the server.
fn of(principal: Option<Arc<str>>) -> Holder {
    Holder { principal, authority: None }
}

fn form(message: &str) -> InputRequest {
    InputRequest::new("elicitation/create", Some(json!({ "message": message, "requestedSchema": {} })))
}

fn answer(name: &str) -> Value {
    json!({ "action": "accept", "content": { "name": name } })
}

fn responses(number: u32, response: Value) -> JsonObject {
    JsonObject::new().with(format!("question-{number}"), response)
}

/// Asks for a name, and returns the answer or the error as text.
async fn asks(questions: Questions<String, &'static str>, message: &str) -> String {
    match questions.ask(form(message), false).await {
        Ok(answered) => answered["content"]["name"].as_str().unwrap_or("no name").to_owned(),
        Err(error) => error.to_string(),
    }
}

/// Returns the call, the number and the messages of the questions of a round.
fn asked(round: Result<ParkedRound<String>, ParkedError>) -> (u64, u32, Vec<String>) {
    let Ok(ParkedRound::Asked { call, number, requests }) = round else { panic!("{round:?}") };
    let text = |(key, request): (&String, &InputRequest)| {
        format!("{key} {}", request.params.as_ref().unwrap()["message"].as_str().unwrap())
    };
    (call, number, requests.iter().map(text).collect())
}

fn complete(round: Result<ParkedRound<String>, ParkedError>) -> String {
    let Ok(ParkedRound::Complete(result)) = round else { panic!("{round:?}") };
    result
}

/// Lets the other tasks run until they wait.
async fn settle() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

/// Counts the futures that were dropped before their end.
#[derive(Clone, Default)]
struct Dropped(Arc<AtomicUsize>);

struct Counted(Dropped);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Dropped {
    fn guard(&self) -> Counted {
        Counted(self.clone())
    }

    fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_without_questions_is_not_parked() {
    let calls = calls();
    let round = calls.start(Holder::default(), "first", |_| async { "done".to_owned() }).await;
    assert_eq!(complete(round), "done");
    settle().await;
    assert!(calls.shared.table.lock().is_empty());
}

#[tokio::test(start_paused = true)]
async fn questions_that_a_server_sends_together_share_a_round() {
    let calls = calls();
    let round = calls.start(Holder::default(), "first", |questions| async move {
        let later = async {
            tokio::time::sleep(Duration::from_millis(5)).await;
            asks(questions.clone(), "second").await
        };
        let (first, second) = tokio::join!(asks(questions.clone(), "first"), later);
        format!("{first} {second}")
    });
    let (call, number, messages) = asked(round.await);
    assert_eq!((number, &*messages), (2, &["question-1 first".to_owned(), "question-2 second".to_owned()][..]));
    let both = responses(1, answer("a")).with("question-2", answer("b"));
    assert_eq!(complete(calls.resume(call, &ANYONE, number, both, "next").await), "a b");
}

#[tokio::test(start_paused = true)]
async fn each_round_answers_the_questions_of_the_former_one() {
    let calls = calls();
    let round = calls.start(Holder::default(), "first", |questions| async move {
        let first = asks(questions.clone(), "first").await;
        let (second, third) = tokio::join!(asks(questions.clone(), "second"), asks(questions, "third"));
        format!("{first} {second} {third}")
    });
    let (call, number, messages) = asked(round.await);
    assert_eq!((number, messages), (1, vec!["question-1 first".to_owned()]));
    let round = calls.resume(call, &ANYONE, number, responses(1, answer("a")), "next").await;
    let (_, number, messages) = asked(round);
    assert_eq!((number, &*messages), (3, &["question-2 second".to_owned(), "question-3 third".to_owned()][..]));
    // A client can answer the questions of a round one after the other.
    let (_, number, messages) = asked(calls.resume(call, &ANYONE, number, responses(3, answer("c")), "next").await);
    assert_eq!((number, messages), (3, vec!["question-2 second".to_owned()]));
    assert_eq!(complete(calls.resume(call, &ANYONE, number, responses(2, answer("b")), "next").await), "a b c");
    assert_eq!(
        (calls.len(), calls.resume(call, &ANYONE, number, JsonObject::new(), "next").await.unwrap_err()),
        (0, ParkedError::Gone)
    );
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_task_panics_after_a_question_is_removed() {
    let calls = calls();
    let round = calls.start(Holder::default(), "first", |questions| async move {
        asks(questions, "name").await;
        panic!("the panic of the test");
    });
    let (call, number, _) = asked(round.await);
    let round = calls.resume(call, &ANYONE, number, responses(1, answer("a")), "next").await;
    assert_eq!(round.unwrap_err(), ParkedError::Gone);
    assert!(!calls.contains(call) && calls.shared.table.lock().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_second_response_and_a_response_without_a_question_do_not_reach_the_server() {
    let calls = calls();
    let round = calls.start(Holder::default(), "first", |questions| async move {
        let first = asks(questions.clone(), "first").await;
        format!("{first} {}", asks(questions, "second").await)
    });
    let (call, number, _) = asked(round.await);
    // The client has not received the second question.
    let (_, second, _) = asked(calls.resume(call, &ANYONE, number, responses(1, answer("a")), "next").await);
    let early = calls.resume(call, &ANYONE, number, responses(2, answer("guess")), "next").await;
    assert_eq!(asked(early).2, ["question-2 second"]);
    for key in [
        "question-0",
        "question-3",
        "question-x",
        "other",
        "question-02",
        "question-+2",
        "question-18446744073709551616",
    ] {
        let round = calls.resume(call, &ANYONE, second, JsonObject::new().with(key, answer("x")), "next").await;
        assert_eq!(asked(round).2, ["question-2 second"], "{key}");
    }
    let again = calls.resume(call, &ANYONE, second, responses(1, answer("b")), "next").await;
    assert_eq!(again.unwrap_err(), ParkedError::Answered { key: "question-1".to_owned() });
    // The client repeats a round whose reply was lost.
    let repeated = calls.resume(call, &ANYONE, second, responses(1, answer("a")), "next").await;
    assert_eq!(asked(repeated).2, ["question-2 second"]);
    assert_eq!(complete(calls.resume(call, &ANYONE, second, responses(2, answer("c")), "next").await), "a c");
}

#[tokio::test(start_paused = true)]
async fn a_node_can_request_a_result_again_for_a_short_time() {
    let calls = calls();
    let round = calls.start(Holder::default(), "first", |questions| async move { asks(questions, "name").await });
    let (call, number, _) = asked(round.await);
    for _ in 0..3 {
        advance(Duration::from_secs(20)).await;
        assert_eq!(complete(calls.resume_for_node(call, &ANYONE, number, responses(1, answer("a"))).await), "a");
        assert_eq!(calls.len(), 0);
    }
    let other = calls.resume_for_node(call, &ANYONE, number, responses(1, answer("b"))).await;
    assert_eq!(other.unwrap_err(), ParkedError::Answered { key: "question-1".to_owned() });
    tokio::time::sleep(Duration::from_secs(31)).await;
    let late = calls.resume_for_node(call, &ANYONE, number, responses(1, answer("a"))).await;
    assert_eq!(late.unwrap_err(), ParkedError::Gone);
}

#[tokio::test(start_paused = true)]
async fn an_invalid_response_leaves_the_question_open() {
    let calls = calls();
    let (call, number, _) =
        asked(calls.start(Holder::default(), "first", |questions| async move { asks(questions, "name").await }).await);
    for invalid in [json!(null), json!("yes"), json!({}), json!({ "action": 1 })] {
        let error = calls.resume(call, &ANYONE, number, responses(1, invalid.clone()), "next").await.unwrap_err();
        assert!(matches!(&error, ParkedError::Invalid { key, .. } if key == "question-1"), "{invalid} {error}");
    }
    assert_eq!(complete(calls.resume(call, &ANYONE, number, responses(1, answer("a")), "next").await), "a");
}

#[tokio::test(start_paused = true)]
async fn a_parked_call_ends_ten_minutes_after_its_last_round() {
    let (calls, dropped) = (calls(), Dropped::default());
    let guard = dropped.guard();
    let round = calls.start(Holder::default(), "first", |questions| async move {
        let _guard = guard;
        let first = asks(questions.clone(), "first").await;
        format!("{first} {}", asks(questions, "second").await)
    });
    let (call, number, _) = asked(round.await);
    // Each round begins the time anew.
    advance(9 * MINUTE).await;
    let (_, number, _) = asked(calls.resume(call, &ANYONE, number, responses(1, answer("a")), "next").await);
    advance(9 * MINUTE).await;
    let (_, number, _) = asked(calls.resume(call, &ANYONE, number, JsonObject::new(), "next").await);
    advance(10 * MINUTE - Duration::from_millis(10)).await;
    settle().await;
    assert_eq!((dropped.count(), calls.len()), (0, 1));
    advance(Duration::from_millis(20)).await;
    settle().await;
    assert_eq!((dropped.count(), calls.len()), (1, 0), "the upstream call is cancelled");
    assert_eq!(
        calls.resume(call, &ANYONE, number, responses(2, answer("b")), "next").await.unwrap_err(),
        ParkedError::Gone
    );
}

#[tokio::test(start_paused = true)]
async fn a_waiting_round_keeps_its_call() {
    let calls = calls();
    let round = calls.start(Holder::default(), "first", |questions| async move {
        let name = asks(questions, "name").await;
        tokio::time::sleep(60 * MINUTE).await;
        name
    });
    let (call, number, _) = asked(round.await);
    assert_eq!(complete(calls.resume(call, &ANYONE, number, responses(1, answer("a")), "next").await), "a");
}

/// Starts a call that asks, and then works for two minutes. Returns the call and the number of its question.
async fn asked_then_works(calls: &Calls, dropped: &Dropped) -> (u64, u32) {
    let guard = dropped.guard();
    let round = calls.start(Holder::default(), "first", |questions| async move {
        let _guard = guard;
        let name = asks(questions, "name").await;
        tokio::time::sleep(2 * MINUTE).await;
        name
    });
    let (call, number, _) = asked(round.await);
    (call, number)
}

#[tokio::test(start_paused = true)]
async fn a_dropped_round_cancels_the_call() {
    let (calls, dropped) = (calls(), Dropped::default());
    let guard = dropped.guard();
    let first = calls.start(Holder::default(), "first", |_| async move {
        let _guard = guard;
        pending().await
    });
    assert!(timeout(MINUTE, first).await.is_err());
    settle().await;
    assert_eq!(dropped.count(), 1, "the first round");

    let (call, number) = asked_then_works(&calls, &dropped).await;
    let later = calls.resume(call, &ANYONE, number, responses(1, answer("a")), "next");
    assert!(timeout(MINUTE, later).await.is_err());
    settle().await;
    assert_eq!((dropped.count(), calls.len()), (2, 0), "a later round");
    let next = calls.resume(call, &ANYONE, number, JsonObject::new(), "next").await;
    assert_eq!(next.unwrap_err(), ParkedError::Gone);
    assert!(calls.shared.table.lock().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_dropped_round_does_not_cancel_a_call_for_which_another_round_waits() {
    let (calls, dropped) = (calls(), Dropped::default());
    let (call, number) = asked_then_works(&calls, &dropped).await;
    let round = |responses| calls.resume(call, &ANYONE, number, responses, "next");
    // The client repeats a round whose stream was lost.
    let mut lost = Box::pin(round(responses(1, answer("a"))));
    assert!(poll_once(lost.as_mut()).await.is_none());
    let repeated = round(responses(1, answer("a")));
    let (repeated, ()) = tokio::join!(repeated, async {
        tokio::task::yield_now().await;
        drop(lost);
    });
    assert_eq!(complete(repeated), "a");
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_wait_for_questions_or_of_a_round_of_another_node_does_not_cancel_the_call() {
    let (calls, dropped) = (calls(), Dropped::default());
    let (call, number) = asked_then_works(&calls, &dropped).await;
    let of_node = calls.resume_for_node(call, &ANYONE, number, responses(1, answer("a")));
    assert!(timeout(MINUTE, of_node).await.is_err());
    assert!(timeout(MINUTE / 2, calls.next(call, &ANYONE, "next")).await.is_err());
    settle().await;
    assert_eq!((dropped.count(), calls.len()), (0, 1), "only the wait has ended");
    // The result waits for a round, but not longer than the lifetime.
    advance(5 * MINUTE).await;
    let round = calls.resume(call, &ANYONE, number, JsonObject::new(), "next").await;
    assert_eq!(complete(round), "a");

    let (call, number) = asked_then_works(&calls, &dropped).await;
    calls.answer(call, &ANYONE, responses(1, answer("a"))).unwrap();
    settle().await;
    advance(11 * MINUTE).await;
    settle().await;
    let late = calls.resume(call, &ANYONE, number, JsonObject::new(), "next").await;
    assert_eq!((late.unwrap_err(), calls.len()), (ParkedError::Gone, 0));
}

#[tokio::test(start_paused = true)]
async fn only_its_holder_continues_a_call() {
    let calls = calls();
    let holder = |principal: Option<&str>, authority: Option<&str>| Holder {
        principal: principal.map(Into::into),
        authority: authority.map(Into::into),
    };
    let ada = holder(Some("ada"), Some("ada with all scopes"));
    let round = calls.start(ada.clone(), "first", |questions| async move { asks(questions, "name").await });
    let (call, number, _) = asked(round.await);
    for other in [
        holder(None, None),
        holder(Some("ada"), None),
        holder(Some("ada"), Some("ada with few scopes")),
        holder(Some("grace"), Some("ada with all scopes")),
    ] {
        let response = || responses(1, answer("x"));
        let rounds = [
            calls.resume(call, &other, number, response(), "next").await,
            calls.resume_for_node(call, &other, number, response()).await,
            calls.next(call, &other, "next").await,
        ];
        for round in rounds {
            assert_eq!(round.unwrap_err(), ParkedError::Gone, "{other:?}");
        }
        assert_eq!(calls.answer(call, &other, response()), Err(ParkedError::Gone), "{other:?}");
    }
    assert_eq!(complete(calls.resume(call, &ada, number, responses(1, answer("a")), "next").await), "a");
}

#[tokio::test(start_paused = true)]
async fn the_calls_of_a_principal_have_a_cap() {
    let calls = calls();
    let ada: Option<Arc<str>> = Some("ada".into());
    let ask = |questions: Questions<String, &'static str>| async move { asks(questions, "name").await };
    let mut parked = Vec::new();
    for _ in 0..64 {
        parked.push(asked(calls.start(of(ada.clone()), "first", ask).await));
    }
    let refused = complete(calls.start(of(ada.clone()), "first", ask).await);
    assert_eq!(refused, "too many calls of the user wait for answers");
    for other in [None, Some("grace".into())] {
        asked(calls.start(of(other), "first", ask).await);
    }
    // A call that is parked already can ask again, and a call that has ended makes room.
    let (call, number, _) = parked.pop().unwrap();
    assert_eq!(complete(calls.resume(call, &of(ada.clone()), number, responses(1, answer("a")), "next").await), "a");
    asked(calls.start(of(ada.clone()), "first", ask).await);
    assert_eq!(complete(calls.start(of(ada), "first", ask).await), refused);

    let calls: Calls = ParkedCalls::new(ParkedLimits { total: 1, ..ParkedLimits::default() });
    asked(calls.start(Holder::default(), "first", ask).await);
    assert_eq!(complete(calls.start(of(Some("ada".into())), "first", ask).await), "too many calls wait for answers");
}

#[tokio::test(start_paused = true)]
async fn a_question_that_the_server_withdraws_does_not_count() {
    let calls = calls();
    let round = calls.start(Holder::default(), "first", |questions| async move {
        let withdrawn = timeout(MINUTE, questions.ask(form("first"), false)).await.is_err();
        format!("{withdrawn} {}", asks(questions, "second").await)
    });
    let (call, first, _) = asked(round.await);
    advance(2 * MINUTE).await;
    settle().await;
    // The response arrives after the withdrawal.
    let (_, second, messages) = asked(calls.resume(call, &ANYONE, first, responses(1, answer("late")), "next").await);
    assert_eq!((second, messages), (2, vec!["question-2 second".to_owned()]));
    assert_eq!(complete(calls.resume(call, &ANYONE, second, responses(2, answer("a")), "next").await), "true a");
}

#[tokio::test(start_paused = true)]
async fn the_questions_of_a_call_have_a_cap() {
    let calls = calls();
    let round = calls.start(Holder::default(), "first", |questions| async move {
        let mut open: Vec<_> = (0..64).map(|_| Box::pin(questions.ask(form("open"), false))).collect();
        for question in &mut open {
            assert!(poll_once(question.as_mut()).await.is_none());
        }
        let open_refused = questions.ask(form("beyond"), false).await;
        drop(open);
        for _ in 64..1024 {
            assert!(poll_once(pin!(questions.ask(form("withdrawn"), false))).await.is_none());
        }
        format!("{open_refused:?} {:?}", questions.ask(form("last"), false).await)
    });
    assert_eq!(complete(round.await), "Err(Questions) Err(Questions)");
}

#[tokio::test(start_paused = true)]
async fn the_questions_and_results_that_wait_have_a_cap_of_bytes() {
    let limits = ParkedLimits { bytes_per_principal: 1000, total_bytes: 1500, ..ParkedLimits::default() };
    let calls: Calls = ParkedCalls::new(limits);
    let of = |name: &str| of(Some(name.into()));
    let large = "x".repeat(600);
    let asks_large = |questions: Questions<String, &'static str>| {
        let large = large.clone();
        async move { asks(questions, &large).await }
    };
    let refused = "the questions and results that wait for their clients are too large";
    let (first, number, _) = asked(calls.start(of("ada"), "first", asks_large).await);
    assert_eq!(complete(calls.start(of("ada"), "first", asks_large).await), refused, "of one principal");
    let (second, ..) = asked(calls.start(of("grace"), "first", asks_large).await);
    assert_eq!(complete(calls.start(of("linus"), "first", asks_large).await), refused, "of all principals");
    // An answered question makes room.
    assert_eq!(complete(calls.resume(first, &of("ada"), number, responses(1, answer("a")), "next").await), "a");
    assert_eq!(complete(calls.resume(second, &of("grace"), number, responses(1, answer("b")), "next").await), "b");

    // A result that no round waits for must fit. A round that waits receives each result.
    for (bytes, waits, expected) in
        [(900, false, Ok(900)), (1100, true, Ok(1100)), (1100, false, Err(ParkedError::Dropped))]
    {
        let round = calls.start(of("ada"), "first", move |questions| async move {
            asks(questions, "name").await;
            tokio::time::sleep(MINUTE).await;
            "x".repeat(bytes)
        });
        let (call, number, _) = asked(round.await);
        let (ada, response) = (of("ada"), responses(1, answer("a")));
        let round = if waits {
            calls.resume(call, &ada, number, response, "next").await
        } else {
            calls.answer(call, &ada, response).unwrap();
            settle().await;
            advance(2 * MINUTE).await;
            settle().await;
            calls.resume(call, &ada, number, JsonObject::new(), "next").await
        };
        let length = round.map(|round| complete(Ok(round)).len());
        assert_eq!(length, expected, "{bytes} {waits}");
        assert!(calls.shared.table.lock().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_check_returns_the_fault_of_a_dropped_result_and_of_a_call_that_has_ended() {
    let calls: Calls = ParkedCalls::new(ParkedLimits { bytes_per_principal: 1000, ..ParkedLimits::default() });
    let round = calls.start(Holder::default(), "first", |questions| async move {
        asks(questions, "name").await;
        "x".repeat(1100)
    });
    let (call, number, _) = asked(round.await);
    let check = || calls.check(call, &ANYONE, number, &JsonObject::new());
    assert_eq!(check(), Ok(()));
    calls.answer(call, &ANYONE, responses(1, answer("a"))).unwrap();
    settle().await;
    assert_eq!(check(), Err(ParkedError::Dropped));
    // The client knows the fault, so the call does not count any more.
    assert_eq!(check(), Err(ParkedError::Gone));
    assert!(calls.shared.table.lock().is_empty());

    let round = calls.start(Holder::default(), "first", |questions| async move { asks(questions, "name").await });
    let (call, number, _) = asked(round.await);
    let parked = Arc::clone(&calls.shared.table.lock().get(call).unwrap().call);
    calls.shared.remove(call);
    settle().await;
    assert_eq!(parked.check(number, &JsonObject::new()), Err(ParkedError::Gone));
}

#[tokio::test(start_paused = true)]
async fn no_round_begins_after_a_round_has_ended_its_call() {
    let calls = calls();
    let round = calls.start(Holder::default(), "first", |questions| async move { asks(questions, "name").await });
    let (call, number, _) = asked(round.await);
    let parked = Arc::clone(&calls.shared.table.lock().get(call).unwrap().call);
    // The table has the call until its round removes it.
    assert!(parked.wait(Some("last")).end(true));
    let round = calls.resume(call, &ANYONE, number, responses(1, answer("a")), "next").await;
    assert!(matches!(round, Err(ParkedError::Gone)), "{round:?}");
    let round = calls.next(call, &ANYONE, "next").await;
    assert!(matches!(round, Err(ParkedError::Gone)), "{round:?}");
    // The question has no answer.
    assert_eq!(parked.check(number, &responses(1, answer("b"))), Err(ParkedError::Gone));
}

#[tokio::test(start_paused = true)]
async fn a_call_knows_its_current_round() {
    let calls = calls();
    let round = calls.start(Holder::default(), "first", |questions| async move {
        let (first, name) = (questions.request(), asks(questions.clone(), "name").await);
        format!("{first:?} {name} {:?}", questions.request())
    });
    let (call, number, _) = asked(round.await);
    let parked = Arc::clone(&calls.shared.table.lock().get(call).unwrap().call);
    let questions = Questions::new(&calls.shared, &parked);
    assert_eq!(questions.request(), None);
    // A round that fails, or that has ended, is not the current one.
    let older = parked.wait(Some("older"));
    let newer = parked.wait(Some("newer"));
    assert!(calls.resume(call, &ANYONE, number, responses(1, json!(7)), "invalid").await.is_err());
    assert_eq!(questions.request(), Some("newer"));
    drop(newer);
    assert_eq!(questions.request(), Some("older"));
    drop(older);
    assert_eq!(questions.request(), None);
    let done = complete(calls.resume(call, &ANYONE, number, responses(1, answer("a")), "next").await);
    assert_eq!(done, r#"Some("first") a Some("next")"#);
}

#[tokio::test(start_paused = true)]
async fn the_request_of_the_round_that_ends_a_call_stays() {
    // Each round has a name, and whether its end can end the call. The rounds end in this order.
    type Rounds = [(&'static str, bool)];
    let cases: [(&Rounds, Option<&str>); 6] = [
        (&[("cancelled", true)], Some("cancelled")),
        (&[("asked", false)], None),
        (&[("asked", false), ("cancelled", true)], Some("cancelled")),
        (&[("cancelled", true), ("asked", false)], None),
        (&[("first", true), ("second", true)], Some("second")),
        (&[("asked", false), ("first", true), ("second", true)], Some("second")),
    ];
    for (rounds, expected) in cases {
        let calls = calls();
        let round = calls.start(Holder::default(), "first", |questions| async move { asks(questions, "name").await });
        let (call, ..) = asked(round.await);
        let parked = Arc::clone(&calls.shared.table.lock().get(call).unwrap().call);
        let waits: Vec<_> = rounds.iter().map(|(name, can_end)| (parked.wait(Some(*name)), *can_end)).collect();
        let ended: Vec<bool> = waits.into_iter().map(|(wait, can_end)| wait.end(can_end)).collect();
        assert_eq!(ended.contains(&true), expected.is_some(), "{rounds:?}");
        let questions = Questions::new(&calls.shared, &parked);
        assert_eq!(questions.last_request(), expected, "{rounds:?}");
        // A round that begins before the removal of the call does not replace the request.
        if expected.is_some() {
            parked.wait(Some("late")).end(true);
            parked.wait(None).end(false);
        }
        assert_eq!(questions.last_request(), expected, "{rounds:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_and_the_end_of_the_gateway_end_each_wait() {
    let (calls, dropped) = (calls(), Dropped::default());
    let panicked = calls.start(Holder::default(), "first", |_| async { panic!("the upstream call fails") });
    assert_eq!(panicked.await.unwrap_err(), ParkedError::Gone);

    let guard = dropped.guard();
    let round = calls.start(Holder::default(), "first", |questions| async move {
        let _guard = guard;
        asks(questions, "name").await
    });
    asked(round.await);
    drop(calls);
    settle().await;
    assert_eq!(dropped.count(), 1);
}
