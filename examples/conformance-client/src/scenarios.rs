//! The calls of the client in each scenario.

use std::error::Error;

use mcp_client::{
    Client, ClientBuilder,
    protocol::{CreateMessageResult, ElicitResult, ProtocolVersion, Root, Tool},
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::authorization::Credentials;

type Outcome = Result<(), Box<dyn Error>>;

/// One run of one scenario.
pub(crate) struct Run {
    pub(crate) url: String,
    pub(crate) scenario: String,
    pub(crate) version: Option<ProtocolVersion>,
    pub(crate) context: Context,
}

/// The further parameters of a scenario.
#[derive(Default, Deserialize)]
pub(crate) struct Context {
    #[serde(default, rename = "toolCalls")]
    tool_calls: Vec<ToolCall>,
    #[serde(flatten)]
    credentials: Credentials,
}

#[derive(Deserialize)]
struct ToolCall {
    name: String,
    #[serde(default)]
    arguments: Map<String, Value>,
}

impl Run {
    /// Runs the scenario.
    pub(crate) async fn execute(&self) -> Outcome {
        match self.scenario.as_str() {
            "initialize" => self.initialize().await,
            "tools_call" => self.tools_call().await,
            "elicitation-sep1034-client-defaults" => self.elicitation_defaults().await,
            "sse-retry" => self.sse_retry().await,
            "json-schema-2020-12-preservation" => self.echo_schema().await,
            "json-schema-ref-no-deref" => self.foreign_reference().await,
            "request-metadata" => self.request_metadata().await,
            "sep-2322-client-request-state" => self.input_required().await,
            "http-standard-headers" => self.standard_headers().await,
            "http-custom-headers" => self.custom_headers().await,
            "http-invalid-tool-headers" => self.invalid_tools().await,
            "sep-2640-client-no-prefetch" => self.list_skills().await,
            "sep-2640-client-verify-digest" | "sep-2640-client-verify-size" | "sep-2640-client-verify-frontmatter" => {
                self.load_forged_skill().await
            }
            name if name.starts_with("auth/") => self.authorized().await,
            other => Err(format!("unknown scenario `{other}`").into()),
        }
    }

    fn builder(&self) -> ClientBuilder {
        Client::builder("conformance-client", env!("CARGO_PKG_VERSION")).prefer(self.version)
    }

    async fn connect(&self) -> Result<Client, mcp_client::Error> {
        self.builder().connect(&self.url).await
    }

    /// Connects only: the server of this scenario has no features.
    async fn initialize(&self) -> Outcome {
        self.connect().await?.close().await;
        Ok(())
    }

    /// Lists the tools and calls one.
    async fn tools_call(&self) -> Outcome {
        let client = self.connect().await?;
        find(&client.list_tools().await?, "add_numbers")?;
        let sum = client.call_tool("add_numbers", json!({ "a": 5, "b": 3 })).await?.ok()?;
        if !sum.text().contains('8') {
            return Err(format!("5 + 3 is {}", sum.text()).into());
        }
        client.close().await;
        Ok(())
    }

    /// Lists the tools and calls one, at a server that requires tokens.
    async fn authorized(&self) -> Outcome {
        let auth = self.context.credentials.authorizer(&self.scenario)?;
        let client = self.builder().auth(auth).connect(&self.url).await?;
        find(&client.list_tools().await?, "test-tool")?;
        client.call_tool("test-tool", ()).await?.ok()?;
        client.close().await;
        Ok(())
    }

    /// Accepts a form without values.
    async fn elicitation_defaults(&self) -> Outcome {
        let accept = |_| async { ElicitResult::accept_json(()) };
        let client = self.builder().on_elicit(accept).connect(&self.url).await?;
        client.list_tools().await?;
        client.call_tool("test_client_elicitation_defaults", ()).await?.ok()?;
        client.close().await;
        Ok(())
    }

    /// Calls a tool whose stream ends before the response.
    async fn sse_retry(&self) -> Outcome {
        let client = self.connect().await?;
        client.list_tools().await?;
        client.call_tool("test_reconnection", ()).await?.ok()?;
        client.close().await;
        Ok(())
    }

    /// Sends the listed schema of a tool back.
    async fn echo_schema(&self) -> Outcome {
        let client = self.connect().await?;
        let tools = client.list_tools().await?;
        let schema = &find(&tools, "json_schema_2020_12_tool")?.input_schema;
        client.call_tool("json_schema_echo", json!({ "schema": schema })).await?.ok()?;
        client.close().await;
        Ok(())
    }

    /// Uses a schema that refers to another server. The server of this scenario does not support `tools/call`.
    async fn foreign_reference(&self) -> Outcome {
        let client = self.builder().check_arguments().connect(&self.url).await?;
        find(&client.list_tools().await?, "lookup_user")?;
        match client.call_tool("lookup_user", json!({ "id": "a-1", "profile": {} })).await {
            Err(error) if !error.is_unsupported() => return Err(error.into()),
            _ => {}
        }
        client.close().await;
        Ok(())
    }

    /// Sends requests with every capability declared. The server rejects the first request, and declares no capabilities.
    async fn request_metadata(&self) -> Outcome {
        let client = self
            .builder()
            .roots([Root::new("file:///tmp")])
            .on_elicit(|_| async { Ok(ElicitResult::decline()) })
            .on_sample(|_| async { Ok(CreateMessageResult::new("nobody", "nothing")) })
            .ignore_capabilities()
            .connect(&self.url)
            .await?;
        client.list_tools().await?;
        client.call_tool("any", ()).await?;
        client.ping().await?;
        client.close().await;
        Ok(())
    }

    /// Calls tools that send input requests, and concurrently tools that do not.
    async fn input_required(&self) -> Outcome {
        let confirm = |_| async { ElicitResult::accept_json(json!({ "confirmed": true })) };
        let client = self.builder().on_elicit(confirm).connect(&self.url).await?;
        client.list_tools().await?;
        let call = |name: &'static str| {
            let client = client.clone();
            async move { client.call_tool(name, ()).await?.ok() }
        };
        let (with_input, unrelated) = tokio::join!(call("test_mrtr_echo_state"), call("test_mrtr_unrelated"));
        with_input?;
        unrelated?;
        call("test_mrtr_no_state").await?;
        call("test_mrtr_unrelated").await?;
        call("test_mrtr_no_result_type").await?;
        client.close().await;
        Ok(())
    }

    /// Sends a request of each kind with a name in its headers.
    async fn standard_headers(&self) -> Outcome {
        let client = self.connect().await?;
        for tool in client.list_tools().await? {
            client.call_tool(&tool.name, ()).await?.ok()?;
        }
        for resource in client.list_resources().await? {
            client.read_resource(&resource.uri).await?;
        }
        for prompt in client.list_prompts().await? {
            client.get_prompt(&prompt.name, [("", ""); 0]).await?;
        }
        client.close().await;
        Ok(())
    }

    /// Calls tools with mirrored arguments, which the suite defines.
    async fn custom_headers(&self) -> Outcome {
        let client = self.connect().await?;
        client.list_tools().await?;
        for call in &self.context.tool_calls {
            client.call_tool(&call.name, &call.arguments).await?.ok()?;
        }
        client.close().await;
        Ok(())
    }

    /// Calls every tool that the client accepts.
    async fn invalid_tools(&self) -> Outcome {
        let client = self.connect().await?;
        for tool in client.list_tools().await? {
            client.call_tool(&tool.name, json!({ "region": "eu" })).await?.ok()?;
        }
        client.close().await;
        Ok(())
    }

    /// Lists the skills without loading them.
    async fn list_skills(&self) -> Outcome {
        let client = self.connect().await?;
        if client.list_skills().await?.is_empty() {
            return Err("the server lists no skill".into());
        }
        client.close().await;
        Ok(())
    }

    /// Loads a skill that differs from its entry. If the client accepts the skill, the scenario reads a file of it.
    async fn load_forged_skill(&self) -> Outcome {
        let client = self.connect().await?;
        for skill in client.list_skills().await? {
            match client.load_skill(skill).await {
                Err(error) if error.is_unverified() => {}
                Err(error) => return Err(error.into()),
                Ok(skill) => drop(skill.read("references/FORMS.md").await?),
            }
        }
        client.close().await;
        Ok(())
    }
}

fn find<'a>(tools: &'a [Tool], name: &str) -> Result<&'a Tool, String> {
    tools.iter().find(|tool| tool.name == name).ok_or_else(|| format!("the server lists no tool `{name}`"))
}
