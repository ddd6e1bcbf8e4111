//! Orders whose rounds a client sends several times: at the same time, after a lost answer, and after an answer.

use std::{
    collections::HashSet,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Error, bail, ensure};
use check_kit::random::Random;
use mcp_client::http::reqwest::Client;
use serde_json::{Map, Value, json};
use tokio::time::sleep;

use crate::stateless::{Answer, Answers, ToolCall};

/// The pause of the user before the answer. Faults fall between the rounds.
const THINKING: Duration = Duration::from_millis(30);
const PAUSE: Duration = Duration::from_millis(20);
/// The time in which a flow ends, with all repetitions.
const LIMIT: Duration = Duration::from_secs(90);
/// The time in which any node returns the orders.
const READ_LIMIT: Duration = Duration::from_secs(60);

/// A URL of the fleet, and the time in which it answers a round.
pub(crate) struct Target {
    pub(crate) url: String,
    pub(crate) limit: Duration,
}

/// A client that places orders.
#[derive(Clone)]
pub(crate) struct Orders {
    client: Client,
    targets: Arc<[Target]>,
}

/// The repetitions of a round whose answer is not lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repeat {
    Never,
    /// Two targets receive the round at the same time.
    AtOnce,
    /// Another target receives the round after its answer.
    Afterwards,
}

impl Repeat {
    /// A choice: half of the flows repeat a round that succeeds.
    pub(crate) fn choose(random: &mut Random) -> Self {
        [Self::Never, Self::AtOnce, Self::Never, Self::Afterwards][random.below(4)]
    }
}

/// The final answer to a flow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    /// The order is stored with this number.
    Placed(u64),
    /// The order may be stored, and no round places it again.
    Failed(String),
}

/// All final answers of a flow, and the number of its repetitions.
#[derive(Debug, Default)]
pub(crate) struct Flow {
    pub(crate) ends: Vec<End>,
    /// The rounds with all answers that were sent again.
    pub(crate) repeated: usize,
    /// Those of them that followed a lost or temporary answer.
    pub(crate) lost: usize,
}

impl Flow {
    /// Whether a target has confirmed the order. All confirmations must contain the same number.
    pub(crate) fn is_placed(&self) -> Result<bool, Error> {
        let numbers: HashSet<u64> = self
            .ends
            .iter()
            .filter_map(|end| if let End::Placed(number) = end { Some(*number) } else { None })
            .collect();
        ensure!(numbers.len() < 2, "one flow has several orders: {:?}", self.ends);
        Ok(!numbers.is_empty())
    }
}

/// A flow whose user has answered. Its last round is missing.
#[derive(Clone)]
pub(crate) struct Answered {
    call: ToolCall,
    answers: Answers,
    targets: Arc<[Target]>,
}

impl Orders {
    /// A client of these targets. It opens a connection for each request, so a lost answer has one cause.
    pub(crate) fn new(targets: Vec<Target>) -> Result<Self, Error> {
        let client = Client::builder().no_proxy().tcp_nodelay(true).pool_max_idle_per_host(0).build()?;
        Ok(Self { client, targets: targets.into() })
    }

    /// Orders an item. The first target receives the first request.
    pub(crate) async fn place(&self, item: &str, takes: Duration, first: usize, repeat: Repeat) -> Result<Flow, Error> {
        let flow = self.ask(item, takes, first).await?;
        sleep(THINKING).await;
        flow.place(first, repeat).await
    }

    /// The first round of an order, until a target has asked the user.
    pub(crate) async fn ask(&self, item: &str, takes: Duration, first: usize) -> Result<Answered, Error> {
        let arguments = json!({ "item": item, "takes_ms": takes.as_millis() as u64 });
        let call = ToolCall::new(&self.client, "order", arguments);
        let start = Instant::now();
        for turn in first.. {
            let target = target(&self.targets, turn);
            match call.send(&target.url, None, target.limit).await.context("the first round")? {
                Answer::Result(result) => {
                    let answers = answers(&result).with_context(|| format!("the first round returned {result}"))?;
                    return Ok(Answered { call, answers, targets: self.targets.clone() });
                }
                Answer::Error(error) => bail!("the first round failed with {error}"),
                Answer::Unavailable(_) | Answer::Lost(_) => {}
            }
            ensure!(start.elapsed() < LIMIT, "no target accepts the first round of {item}");
            sleep(PAUSE).await;
        }
        bail!("no target is left")
    }

    /// The result of the tool `orders`.
    pub(crate) async fn read(&self) -> Result<Value, Error> {
        let (call, start) = (ToolCall::new(&self.client, "orders", json!({})), Instant::now());
        for turn in 0.. {
            let target = target(&self.targets, turn);
            let answer = call.send(&target.url, None, target.limit).await.context("the orders")?;
            if let Answer::Result(result) = &answer
                && result["structuredContent"]["items"].is_array()
            {
                return Ok(result["structuredContent"].clone());
            }
            ensure!(start.elapsed() < READ_LIMIT, "the orders cannot be read: {answer:?}");
            sleep(PAUSE).await;
        }
        bail!("no target is left")
    }
}

impl Answered {
    /// The last round, with the chosen repetitions.
    pub(crate) async fn place(&self, first: usize, repeat: Repeat) -> Result<Flow, Error> {
        let mut flow = Flow::default();
        match repeat {
            Repeat::Never => self.finish(first, &mut flow).await?,
            Repeat::AtOnce => {
                let mut other = Flow::default();
                let (one, two) = tokio::join!(self.finish(first, &mut flow), self.finish(first + 1, &mut other));
                one?;
                two?;
                flow.ends.append(&mut other.ends);
                flow.repeated += other.repeated + 1;
                flow.lost += other.lost;
            }
            Repeat::Afterwards => {
                self.finish(first, &mut flow).await?;
                self.finish(first + 1, &mut flow).await?;
                flow.repeated += 1;
            }
        }
        Ok(flow)
    }

    /// The same flow with other targets.
    pub(crate) fn at(&self, orders: &Orders) -> Self {
        Self { targets: orders.targets.clone(), ..self.clone() }
    }

    /// Sends the last round once. Returns `None` if the answer is lost.
    pub(crate) async fn send_once(&self, turn: usize) -> Result<Option<End>, Error> {
        let target = target(&self.targets, turn);
        end(&self.call.send(&target.url, Some(&self.answers), target.limit).await?)
    }

    /// The end of the flow at the targets, with the number of repetitions.
    pub(crate) async fn end_of(&self, first: usize) -> Result<Flow, Error> {
        let mut flow = Flow::default();
        self.finish(first, &mut flow).await?;
        Ok(flow)
    }

    /// Sends the last round to one target after another, until a target returns a final answer.
    pub(crate) async fn finish(&self, first: usize, flow: &mut Flow) -> Result<(), Error> {
        let start = Instant::now();
        for turn in first.. {
            if let Some(end) = self.send_once(turn).await.context("the last round")? {
                flow.ends.push(end);
                return Ok(());
            }
            ensure!(start.elapsed() < LIMIT, "a flow has no end in time");
            flow.repeated += 1;
            flow.lost += 1;
            sleep(PAUSE).await;
        }
        bail!("no target is left")
    }
}

fn target(targets: &[Target], turn: usize) -> &Target {
    &targets[turn % targets.len()]
}

/// The answers of a user who confirms each question.
fn answers(result: &Value) -> Option<Answers> {
    let answer = |_| json!({ "action": "accept", "content": { "confirm": true } });
    let requests = result["inputRequests"].as_object().filter(|requests| !requests.is_empty())?;
    let responses: Map<String, Value> = requests.keys().map(|key| (key.clone(), answer(key))).collect();
    let state = result["requestState"].is_string().then(|| result["requestState"].clone())?;
    Some(Answers { responses: responses.into(), state })
}

/// The end of a flow. `None` if the answer is lost, or if it requests a repetition.
fn end(answer: &Answer) -> Result<Option<End>, Error> {
    let result = match answer {
        Answer::Result(result) => result,
        Answer::Error(error) if error["data"]["retryable"] == true || error["data"]["reason"] == "busy" => {
            return Ok(None);
        }
        Answer::Error(error) => bail!("the last round failed with {error}"),
        Answer::Unavailable(_) | Answer::Lost(_) => return Ok(None),
    };
    let text = result["content"][0]["text"].as_str().with_context(|| format!("a result without a text: {result}"))?;
    if result["isError"] == true {
        return Ok((!text.contains("try again later")).then(|| End::Failed(text.to_owned())));
    }
    let number = text.strip_prefix("order ").and_then(|number| number.parse().ok());
    Ok(Some(End::Placed(number.with_context(|| format!("a result without a number: {result}"))?)))
}

/// Checks that the log has no order twice, and each order of a flow that succeeded. Returns the number of orders.
pub(crate) fn placed_once(orders: &Value, succeeded: &[String]) -> Result<usize, Error> {
    ensure!(orders["repeated"] == json!([]), "orders were placed twice: {}", orders["repeated"]);
    let items: HashSet<&str> = orders["items"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let lost: Vec<_> = succeeded.iter().filter(|item| !items.contains(item.as_str())).collect();
    ensure!(lost.is_empty(), "flows succeeded, and their orders are not stored: {lost:?}");
    Ok(items.len())
}

#[cfg(test)]
mod tests {
    use mcp_client::http::reqwest::StatusCode;

    use super::*;

    #[test]
    fn only_lost_and_temporary_answers_are_repeated() {
        let result = |text: &str, is_error: bool| {
            Answer::Result(json!({ "content": [{ "type": "text", "text": text }], "isError": is_error }))
        };
        let failed = "an earlier attempt at this call did not finish; it is not repeated";
        for (answer, expected) in [
            (result("order 3", false), Some(Some(End::Placed(3)))),
            (result(failed, true), Some(Some(End::Failed(failed.to_owned())))),
            (result("the shared store is unavailable; try again later", true), Some(None)),
            (Answer::Lost(String::new()), Some(None)),
            (Answer::Unavailable(StatusCode::BAD_GATEWAY), Some(None)),
            (Answer::Error(json!({ "code": -32603, "data": { "reason": "busy" } })), Some(None)),
            (Answer::Error(json!({ "code": -32602 })), None),
            (result("not ordered", false), None),
            (Answer::Result(json!({ "inputRequests": {} })), None),
        ] {
            assert_eq!(end(&answer).ok(), expected, "{answer:?}");
        }
    }

    #[test]
    fn two_orders_of_a_flow_are_a_fault() {
        let flow = |ends: &[End]| Flow { ends: ends.to_vec(), ..Flow::default() }.is_placed().ok();
        let failed = End::Failed(String::new());
        assert_eq!(flow(&[End::Placed(1), End::Placed(1)]), Some(true));
        assert_eq!(flow(std::slice::from_ref(&failed)), Some(false));
        assert_eq!(flow(&[failed, End::Placed(1)]), Some(true));
        assert_eq!(flow(&[End::Placed(1), End::Placed(2)]), None);
    }

    #[test]
    fn repeated_and_missing_orders_are_faults() {
        let check = |repeated: &[&str], succeeded: &str| {
            placed_once(&json!({ "items": ["a", "b"], "repeated": repeated }), &[succeeded.to_owned()]).ok()
        };
        assert_eq!(check(&[], "a"), Some(2));
        assert_eq!(check(&["a"], "a"), None);
        assert_eq!(check(&[], "c"), None);
    }
}
