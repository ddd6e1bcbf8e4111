//! The requests of a client: tools, lists, resources, prompts, completions and tasks.

use mcp_protocol::{
    CompleteParams, CompleteResult, CompletionArgument, CompletionReference, GetPromptParams, GetPromptResult, Method,
    Prompt, ReadResourceParams, ReadResourceResult, Resource, ResourceTemplate, Tool, method, tasks::Task,
};
use serde::Serialize;
use serde_json::{Value, value::RawValue};

use super::{
    Client,
    arguments::{object, texts},
};
use crate::{Call, List, TaskHandle, ToolResult, call::tool_result, connection::Request};

impl Client {
    /// Calls a tool. `arguments` serializes to a JSON object: a struct, a map, or [`serde_json::json!`]. `()` means no
    /// arguments.
    ///
    /// The result of a failed tool is not an error of the call: see [`ToolResult::is_error`] and [`ToolResult::ok`].
    ///
    /// ```no_run
    /// # async fn example(client: mcp_client::Client) -> Result<(), mcp_client::Error> {
    /// let sum = client.call_tool("add", serde_json::json!({ "a": 1, "b": 2 })).await?;
    /// println!("{}", sum.text());
    /// # Ok(())
    /// # }
    /// ```
    pub fn call_tool(&self, name: impl AsRef<str>, arguments: impl Serialize) -> Call<ToolResult> {
        #[derive(Serialize)]
        struct Params<'a> {
            name: &'a str,
            arguments: &'a RawValue,
        }
        let name = name.as_ref();
        let request = object(&arguments).and_then(|arguments| {
            let params = Params { name, arguments: &arguments };
            Ok(Request::new(method::CallTool::NAME, &params)?.named(name))
        });
        Call::with(&self.handle, request, tool_result)
    }

    /// Lists the tools: all pages, [one page](List::page), or [a stream](List::stream).
    ///
    /// ```no_run
    /// # async fn example(client: mcp_client::Client) -> Result<(), mcp_client::Error> {
    /// for tool in client.list_tools().await? {
    ///     println!("{}", tool.name);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn list_tools(&self) -> List<Tool> {
        List::new(&self.handle)
    }

    /// Lists the resources.
    ///
    /// ```no_run
    /// # async fn example(client: mcp_client::Client) -> Result<(), mcp_client::Error> {
    /// let resources = client.list_resources().await?;
    /// println!("{} resources", resources.len());
    /// # Ok(())
    /// # }
    /// ```
    pub fn list_resources(&self) -> List<Resource> {
        List::new(&self.handle)
    }

    /// Lists the resource templates.
    ///
    /// ```no_run
    /// # async fn example(client: mcp_client::Client) -> Result<(), mcp_client::Error> {
    /// let templates = client.list_resource_templates().await?;
    /// println!("{} templates", templates.len());
    /// # Ok(())
    /// # }
    /// ```
    pub fn list_resource_templates(&self) -> List<ResourceTemplate> {
        List::new(&self.handle)
    }

    /// Lists the prompts.
    ///
    /// ```no_run
    /// # async fn example(client: mcp_client::Client) -> Result<(), mcp_client::Error> {
    /// let prompts = client.list_prompts().await?;
    /// println!("{} prompts", prompts.len());
    /// # Ok(())
    /// # }
    /// ```
    pub fn list_prompts(&self) -> List<Prompt> {
        List::new(&self.handle)
    }

    /// Returns a handle for a task with a known id, which can be from another connection or program.
    ///
    /// ```no_run
    /// # async fn example(client: mcp_client::Client) -> Result<(), mcp_client::Error> {
    /// let task = client.task("786512e2-9e0d-44bd-8f29-789f320fe840");
    /// println!("{:?}", task.status().await?.status);
    /// # Ok(())
    /// # }
    /// ```
    pub fn task(&self, id: impl Into<String>) -> TaskHandle {
        TaskHandle::new(&self.handle, id.into())
    }

    /// Lists the tasks of this client (2025-11-25). Later revisions have no such list.
    ///
    /// ```no_run
    /// # async fn example(client: mcp_client::Client) -> Result<(), mcp_client::Error> {
    /// for task in client.list_tasks().await? {
    ///     println!("{}: {:?}", task.task_id, task.status);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn list_tasks(&self) -> List<Task> {
        List::new(&self.handle)
    }

    /// Reads a resource.
    ///
    /// ```no_run
    /// # async fn example(client: mcp_client::Client) -> Result<(), mcp_client::Error> {
    /// let read = client.read_resource("config://app").await?;
    /// println!("{} parts", read.contents.len());
    /// # Ok(())
    /// # }
    /// ```
    pub fn read_resource(&self, uri: impl AsRef<str>) -> Call<ReadResourceResult> {
        let uri = uri.as_ref();
        let request = Request::of::<method::ReadResource>(&ReadResourceParams::new(uri));
        Call::new(&self.handle, request.map(|request| request.named(uri)))
    }

    /// Gets a prompt with arguments. `arguments` serializes to strings with names: pairs, a map, a struct, or
    /// [`serde_json::json!`]. `()` means no arguments.
    ///
    /// ```no_run
    /// # async fn example(client: mcp_client::Client) -> Result<(), mcp_client::Error> {
    /// let prompt = client.get_prompt("review", [("language", "Rust")]).await?;
    /// println!("{} messages", prompt.messages.len());
    /// # Ok(())
    /// # }
    /// ```
    pub fn get_prompt(&self, name: impl AsRef<str>, arguments: impl Serialize) -> Call<GetPromptResult> {
        let name = name.as_ref();
        let request = texts(&arguments).and_then(|arguments| {
            let params = arguments
                .into_iter()
                .fold(GetPromptParams::new(name), |params, (argument, value)| params.with_argument(argument, value));
            Ok(Request::of::<method::GetPrompt>(&params)?.named(name))
        });
        Call::new(&self.handle, request)
    }

    /// Requests completions for an argument of a prompt, or for a variable of a resource template. `value` is the text
    /// so far.
    ///
    /// ```no_run
    /// # async fn example(client: mcp_client::Client) -> Result<(), mcp_client::Error> {
    /// use mcp_client::protocol::CompletionReference;
    ///
    /// let found = client.complete(CompletionReference::prompt("review"), "language", "R").await?;
    /// println!("{:?}", found.completion.values);
    /// # Ok(())
    /// # }
    /// ```
    pub fn complete(
        &self,
        reference: CompletionReference,
        argument: impl Into<String>,
        value: impl Into<String>,
    ) -> Call<CompleteResult> {
        self.complete_with(&CompleteParams::new(reference, CompletionArgument::new(argument, value)))
    }

    /// Requests completions with the values of other arguments.
    ///
    /// ```no_run
    /// # async fn example(client: mcp_client::Client) -> Result<(), mcp_client::Error> {
    /// use mcp_client::protocol::{CompleteParams, CompletionArgument, CompletionReference};
    ///
    /// let argument = CompletionArgument::new("language", "R");
    /// let params = CompleteParams::new(CompletionReference::prompt("review"), argument);
    /// println!("{:?}", client.complete_with(&params).await?.completion.values);
    /// # Ok(())
    /// # }
    /// ```
    pub fn complete_with(&self, params: &CompleteParams) -> Call<CompleteResult> {
        Call::new(&self.handle, Request::of::<method::Complete>(params))
    }

    /// Sends a request of the protocol with typed parameters and a typed result.
    ///
    /// ```no_run
    /// # async fn example(client: mcp_client::Client) -> Result<(), mcp_client::Error> {
    /// use mcp_client::protocol::{PaginatedParams, method::ListTools};
    ///
    /// let page = client.request::<ListTools>(&PaginatedParams::new()).await?;
    /// println!("{} tools", page.tools.len());
    /// # Ok(())
    /// # }
    /// ```
    pub fn request<M: Method>(&self, params: &M::Params) -> Call<M::Result> {
        Call::new(&self.handle, Request::of::<M>(params).map(|request| request.named_by(M::MIRRORED_PARAM)))
    }

    /// Sends a request with any method. `params` serializes to a JSON object; `()` means no parameters.
    ///
    /// ```no_run
    /// # async fn example(client: mcp_client::Client) -> Result<(), mcp_client::Error> {
    /// let answer = client.request_raw("vendor/search", serde_json::json!({ "text": "x" })).await?;
    /// println!("{answer}");
    /// # Ok(())
    /// # }
    /// ```
    pub fn request_raw(&self, method: impl Into<String>, params: impl Serialize) -> Call<Value> {
        Call::new(&self.handle, Request::new(method.into(), &params).map(Request::find_name))
    }
}
