"""A small server on the Python SDK 2.x that speaks both eras: `server_v2.py stdio` or `server_v2.py http PORT`."""

import sys
from typing import Annotated

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.resolve import Elicit, ListRoots, Resolve, Sample
from mcp_types import Completion, CreateMessageResult, ListRootsResult, SamplingMessage, TextContent
from pydantic import BaseModel

server = MCPServer("python-v2", version="1.0.0")


class Sum(BaseModel):
    sum: float


class Name(BaseModel):
    name: str


def who() -> Elicit[Name]:
    return Elicit("Who are you?", Name)


def idea() -> Sample:
    question = SamplingMessage(role="user", content=TextContent(type="text", text="What is it?"))
    return Sample([question], max_tokens=10)


def places() -> ListRoots:
    return ListRoots()


@server.tool()
def echo(text: str) -> str:
    """Says it again."""
    return text


@server.tool()
def add(a: float, b: float) -> Sum:
    """Adds."""
    return Sum(sum=a + b)


@server.tool()
async def ask(name: Annotated[Name, Resolve(who)]) -> str:
    """Asks by ask."""
    return f"Hello, {name.name}!"


@server.tool()
async def think(answer: Annotated[CreateMessageResult, Resolve(idea)]) -> str:
    """Asks by think."""
    return f"The model says {answer.content.text}."


@server.tool()
async def where(roots: Annotated[ListRootsResult, Resolve(places)]) -> str:
    """Asks by where."""
    return ",".join(str(root.uri) for root in roots.roots)


@server.tool()
async def slow(ms: float, ctx: Context) -> str:
    """Takes its time."""
    for progress in range(1, 6):
        await anyio.sleep(ms / 5000)
        await ctx.report_progress(progress, 5)
    return "done"


@server.tool()
async def touch(ctx: Context) -> str:
    """Changes the note."""
    await ctx.notify_resource_updated("note://one")
    return "touched"


@server.resource("note://one", mime_type="text/plain")
def note() -> str:
    return "A note."


@server.prompt()
def greet(name: str) -> str:
    return f"Greet {name}."


@server.completion()
async def complete(ref, argument, context):
    return Completion(values=[name for name in ("Ada", "Alan", "Grace") if name.startswith(argument.value)])


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        server.run()
    else:
        server.run(transport="streamable-http", port=int(sys.argv[2]))
