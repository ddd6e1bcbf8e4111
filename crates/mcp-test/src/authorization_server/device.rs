//! The device flow (RFC 8628): a device shows a code, and the user enters the code on another device.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use mcp_auth::jose;
use mcp_protocol::auth::{TokenResponse, grant_type};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    Inner, clock,
    fault::Fault,
    issue::Issue,
    message::{self, Parameters},
    metadata::path,
    page,
    state::{ClientRecord, GrantRecord, Record, Update},
};

/// The lifetime of the codes.
const LIFETIME: Duration = Duration::from_secs(600);
/// The seconds by which the interval grows if a client polls too often (RFC 8628 §3.5).
const SLOWER: u64 = 5;
/// The characters of a code for users: consonants, which form no words (RFC 8628 §6.1).
const LETTERS: &[u8] = b"BCDFGHJKLMNPQRSTVWXZ";
const CODE_LENGTH: usize = 8;

/// A request of a device. Its name is the digest of the device code.
#[derive(Clone, Serialize, Deserialize)]
struct DeviceRecord {
    client_id: String,
    scopes: Vec<String>,
    audience: Vec<String>,
    expires_at: u64,
    /// The grant that the request becomes.
    grant: String,
    decision: Decision,
    /// The seconds between two polls.
    interval: u64,
    polled_at: Option<u64>,
    is_too_fast: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Decision {
    Pending,
    Approved,
    Denied,
    /// The client received its tokens.
    Used,
}

/// The code of a user. It leads to the request of the device.
#[derive(Serialize, Deserialize)]
struct UserCodeRecord {
    device: String,
}

impl Record for DeviceRecord {
    const KIND: &'static str = "device";
}
impl Record for UserCodeRecord {
    const KIND: &'static str = "user_code";
}

impl Inner {
    /// Starts the flow.
    pub(super) async fn authorize_device(
        &self,
        request: &Request<Bytes>,
        now: SystemTime,
    ) -> Result<Response<Bytes>, Fault> {
        let parameters = Parameters::of_form(request)?;
        let client = self.authenticate(request.headers(), &parameters, now).await?;
        if !client.may_use(grant_type::DEVICE_CODE) {
            return Err(Fault::new("unauthorized_client", "the client did not register the grant type"));
        }
        let (device_code, user_code) = (jose::random_text()?, user_code()?);
        let device = jose::sha256(device_code.as_bytes());
        let record = DeviceRecord {
            client_id: client.id().to_owned(),
            scopes: self.granted_scopes(&client, parameters.get("scope"))?,
            audience: self.audience(&parameters)?,
            expires_at: clock::after(now, LIFETIME),
            grant: jose::random_text()?,
            decision: if self.config.is_auto_approved { Decision::Approved } else { Decision::Pending },
            interval: self.config.device_interval.as_secs(),
            polled_at: None,
            is_too_fast: false,
        };
        self.state.create(&device, &record, LIFETIME).await?;
        if !self.state.create(&user_code, &UserCodeRecord { device }, LIFETIME).await? {
            return Err(Fault::unavailable("the code of the user exists already"));
        }
        let (first, second) = user_code.split_at(CODE_LENGTH / 2);
        let (shown, page) = (format!("{first}-{second}"), self.url_of(path::DEVICE));
        let answer = json!({
            "device_code": device_code,
            "user_code": shown,
            "verification_uri": page,
            "verification_uri_complete": format!("{page}?user_code={shown}"),
            "expires_in": LIFETIME.as_secs(),
            "interval": record.interval,
        });
        Ok(message::json(StatusCode::OK, &answer))
    }

    /// Processes a poll of the device.
    pub(super) async fn redeem_device_code(
        &self,
        client: &ClientRecord,
        parameters: &Parameters,
        jkt: Option<String>,
        now: SystemTime,
    ) -> Result<TokenResponse, Fault> {
        let device = jose::sha256(parameters.require("device_code")?.as_bytes());
        let unknown = || Fault::invalid_grant("the device code is unknown or used");
        let record = self.state.get::<DeviceRecord>(&device).await?.ok_or_else(unknown)?.record;
        if record.client_id != client.id() {
            return Err(Fault::invalid_grant("the device code belongs to another client"));
        }
        let time = clock::seconds(now);
        if time >= record.expires_at {
            return Err(Fault::new("expired_token", "the device code is expired"));
        }
        if record.decision == Decision::Approved {
            let grant = GrantRecord {
                client_id: record.client_id,
                subject: self.config.subject.clone(),
                scopes: record.scopes,
                audience: record.audience,
                jkt: if client.is_public() { jkt.clone() } else { None },
                is_revoked: false,
            };
            self.state.create(&record.grant, &grant, self.config.refresh_token_lifetime).await?;
        }
        // The record stays until the end of its lifetime, so that a second use is recognized.
        match self.state.update(&device, LIFETIME, |record| poll(record, time)).await? {
            Update::Changed(record) if record.decision == Decision::Used => {
                self.finish_device(client, record.grant, jkt, now).await
            }
            Update::Changed(record) if record.is_too_fast => {
                Err(Fault::new("slow_down", format!("the client must wait {} seconds", record.interval)))
            }
            Update::Changed(_) => Err(Fault::new("authorization_pending", "the user has not decided yet")),
            Update::Kept(record) if record.decision == Decision::Denied => {
                Err(Fault::new("access_denied", "the user denied the request"))
            }
            Update::Kept(_) | Update::Absent => Err(unknown()),
        }
    }

    async fn finish_device(
        &self,
        client: &ClientRecord,
        id: String,
        jkt: Option<String>,
        now: SystemTime,
    ) -> Result<TokenResponse, Fault> {
        let grant = self.state.get::<GrantRecord>(&id).await?.ok_or_else(|| Fault::unavailable("the grant is gone"))?;
        let refresh_token = self.refresh_token_for(client, &id, &grant.record.scopes, now).await?;
        let issue = Issue { jkt, ..Issue::of_grant(id, grant.record) };
        self.tokens(issue, refresh_token, now).await
    }

    /// Decides about a request of a device. `false` if the code is unknown, or the user already decided.
    pub(super) async fn decide_device(
        &self,
        user_code: &str,
        is_approved: bool,
        now: SystemTime,
    ) -> Result<bool, Fault> {
        let Some(code) = self.state.get::<UserCodeRecord>(&normalized(user_code)).await? else { return Ok(false) };
        let decision = if is_approved { Decision::Approved } else { Decision::Denied };
        let time = clock::seconds(now);
        let decide = |record: &DeviceRecord| {
            let is_open = record.decision == Decision::Pending && time < record.expires_at;
            is_open.then(|| DeviceRecord { decision, ..record.clone() })
        };
        let update = self.state.update(&code.record.device, LIFETIME, decide).await?;
        Ok(matches!(update, Update::Changed(_)))
    }

    /// The page: it asks for the code, shows the request, and processes the decision.
    pub(super) async fn device_page(
        &self,
        request: &Request<Bytes>,
        now: SystemTime,
    ) -> Result<Response<Bytes>, Fault> {
        if request.method() == Method::POST {
            return self.read_device_decision(request, now).await;
        }
        let parameters = Parameters::parse(request.uri().query().unwrap_or_default().as_bytes())?;
        let action = self.url_of(path::DEVICE);
        let Some(code) = parameters.get("user_code").map(normalized) else {
            return Ok(message::page(StatusCode::OK, page::device_code(&action)));
        };
        let unknown = || Fault::invalid_request("The code is unknown or expired.").with_status(StatusCode::NOT_FOUND);
        let device = self.state.get::<UserCodeRecord>(&code).await?.ok_or_else(unknown)?.record.device;
        let record = self.state.get::<DeviceRecord>(&device).await?.ok_or_else(unknown)?.record;
        if record.decision != Decision::Pending || clock::seconds(now) >= record.expires_at {
            return Err(unknown());
        }
        let client = self.client(&record.client_id, now).await?.ok_or_else(unknown)?;
        let (browser, cookie) = self.browser(request.headers())?;
        let html = page::device(&page::Device {
            action: &action,
            form: &form_token(&browser),
            user_code: &code,
            client: client.name(),
            client_id: client.id(),
            subject: &self.config.subject,
            scopes: &record.scopes,
            resources: &record.audience,
        });
        let mut response = message::page(StatusCode::OK, html);
        response.headers_mut().extend(cookie.map(|cookie| (header::SET_COOKIE, cookie)));
        Ok(response)
    }

    async fn read_device_decision(&self, request: &Request<Bytes>, now: SystemTime) -> Result<Response<Bytes>, Fault> {
        let parameters = Parameters::of_form(request)?;
        let browser = super::consent::browser_of(request.headers()).unwrap_or_default();
        if !jose::is_equal(parameters.require("form")?, &form_token(browser)) || browser.is_empty() {
            let fault = Fault::new("access_denied", "The page belongs to another browser.");
            return Err(fault.with_status(StatusCode::FORBIDDEN));
        }
        let is_approved = match parameters.require("decision")? {
            "approve" => true,
            "deny" => false,
            _ => return Err(Fault::invalid_request("The decision is neither `approve` nor `deny`.")),
        };
        if !self.decide_device(parameters.require("user_code")?, is_approved, now).await? {
            return Err(Fault::invalid_request("The code is unknown or expired, or the user already decided."));
        }
        let text = if is_approved { "The device has access now." } else { "The device has no access." };
        Ok(message::page(StatusCode::OK, page::notice(text)))
    }
}

/// Returns the record after a poll. `None` if the poll changes nothing.
fn poll(record: &DeviceRecord, time: u64) -> Option<DeviceRecord> {
    match record.decision {
        Decision::Approved => Some(DeviceRecord { decision: Decision::Used, ..record.clone() }),
        Decision::Pending => {
            let next = record.polled_at.map_or(0, |polled_at| polled_at.saturating_add(record.interval));
            let is_too_fast = time < next;
            let interval = record.interval.saturating_add(if is_too_fast { SLOWER } else { 0 });
            Some(DeviceRecord { polled_at: Some(time), interval, is_too_fast, ..record.clone() })
        }
        Decision::Denied | Decision::Used => None,
    }
}

/// Returns a random code for users, without its hyphen.
fn user_code() -> Result<String, Fault> {
    let mut code = String::new();
    while code.len() < CODE_LENGTH {
        let random = jose::random_text()?;
        let letters = random.bytes().map(|byte| byte.to_ascii_uppercase()).filter(|byte| LETTERS.contains(byte));
        code.extend(letters.take(CODE_LENGTH - code.len()).map(char::from));
    }
    Ok(code)
}

/// Returns a code as the server stores it. A user can write small letters, and omit the hyphen.
fn normalized(code: &str) -> String {
    code.chars().filter(char::is_ascii_alphabetic).map(|letter| letter.to_ascii_uppercase()).collect()
}

/// Returns the number that a form needs besides the cookie of the browser.
fn form_token(browser: &str) -> String {
    jose::sha256(format!("device form {browser}").as_bytes())
}
