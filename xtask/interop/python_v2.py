"""The Python SDK 2.x against the example server `everything`: the checks of checks.mjs; those of live.mjs are in live.py."""

import json
import sys
import warnings

import anyio
import live
from harness import CHECK_SECONDS, CONFIG, LEGACY, MODERN, checks_in, describe, every, expect, first, is_png, names
from harness import rejects, report, run_all
from mcp import Client, MCPError, StdioServerParameters
from mcp_types import PromptReference

MODES = {"legacy": "legacy", "modern": MODERN, "auto": "auto"}

LOGS = []


async def check_connect(client):
    version, legacy = client.protocol_version, LEGACY
    expect(version != MODERN if legacy else version == MODERN, f"version {version} was negotiated")
    # A pinned version asks nothing of the server before the first request, not even its name.
    named = CONFIG["era"] == "modern" or (client.server_info is not None and client.server_info.name)
    expect(named, f"the server is {client.server_info}")


async def check_tools(client):
    tools = await every(client.list_tools, "tools")
    names(tools, "name", ["echo", "add", "big", "test_simple_text", "test_error_handling"])
    for tool in tools:
        expect(tool.input_schema.get("type") == "object", f"{tool.name} has the input schema {tool.input_schema}")


async def check_call(client):
    text = 'grüße, 世界 🌍, "quotes", \\ and\na second line'
    echo = first(await client.call_tool("echo", {"text": text}))
    expect(echo == text, f"the echo came as {echo!r}")
    total = await client.call_tool("add", {"a": 2, "b": 3})
    typed = total.structured_content
    expect("5" in first(total), f"2 + 3 came as {first(total)}")
    expect(typed is not None and 5 in typed.values(), f"typed, 2 + 3 came as {typed}")
    expect(first(await client.call_tool("test_simple_text")), "a call without arguments brought no text")

    async def one(n):
        answer = first(await client.call_tool("echo", {"text": f"call {n}"}))
        expect(answer == f"call {n}", f"an echo among others came as {answer!r}")

    async with anyio.create_task_group() as group:
        for n in range(16):
            group.start_soon(one, n)


async def check_big(client):
    length = len(first(await client.call_tool("big", {"n": 300_000})))
    expect(length == 300_000, f"the text has the length {length}")


async def check_content(client):
    async def content(tool):
        return (await client.call_tool(tool, {})).content

    image = (await content("test_image_content"))[0]
    expect(image.type == "image" and image.mime_type == "image/png" and is_png(image.data), "no PNG came")
    audio = (await content("test_audio_content"))[0]
    expect(audio.type == "audio" and audio.mime_type == "audio/wav" and audio.data, "no WAV came")
    embedded = (await content("test_embedded_resource"))[0]
    expect(embedded.type == "resource" and embedded.resource.text, "no embedded resource came")
    kinds = [item.type for item in await content("test_multiple_content_types")]
    expect(kinds == ["text", "image", "resource"], f"the kinds of content are {kinds}")


async def check_error(client):
    failed = await client.call_tool("test_error_handling", {})
    expect(failed.is_error and first(failed), "is_error and a text were expected")
    invalid = await client.call_tool("add", {"a": "two", "b": 3})
    expect(invalid.is_error and first(invalid), "is_error for wrong arguments was expected")
    await rejects(client.call_tool("no_such_tool", {}), [-32602], "a call of an unknown tool")
    expect(first(await client.call_tool("echo", {"text": "still there"})) == "still there", "no echo afterwards")


async def check_resources(client):
    names(await every(client.list_resources, "resources"), "uri", ["test://static-text", "test://static-binary"])


async def check_read(client):
    text = (await client.read_resource("test://static-text")).contents[0]
    expect(text.mime_type == "text/plain" and text.text, f"the text came as {text}")
    binary = (await client.read_resource("test://static-binary")).contents[0]
    expect(binary.mime_type == "image/png" and is_png(binary.blob), "no PNG came")
    await rejects(client.read_resource("test://no-such-resource"), [-32002, -32602], "a read of an unknown resource")


async def check_templates(client):
    templates = await every(client.list_resource_templates, "resource_templates")
    names(templates, "uri_template", ["test://template/{id}/data"])
    data = (await client.read_resource("test://template/123/data")).contents[0]
    expect(data.uri == "test://template/123/data", f"the uri is {data.uri}")
    expect(json.loads(data.text)["id"] == "123", f"the variable is not in {data.text}")


async def check_prompts(client):
    prompts = await every(client.list_prompts, "prompts")
    names(prompts, "name", ["test_simple_prompt", "test_prompt_with_arguments", "test_prompt_with_image"])
    prompt = next(prompt for prompt in prompts if prompt.name == "test_prompt_with_arguments")
    arguments = [(argument.name, argument.required) for argument in prompt.arguments]
    expect(arguments == [("arg1", True), ("arg2", True)], f"its arguments are {arguments}")


async def check_prompt(client):
    simple = (await client.get_prompt("test_simple_prompt")).messages[0]
    expect(simple.role == "user" and simple.content.text, f"the simple prompt came as {simple}")
    arguments = {"arg1": "left", "arg2": "right"}
    text = (await client.get_prompt("test_prompt_with_arguments", arguments)).messages[0].content.text
    expect("left" in text and "right" in text, f"the arguments are not in {text}")
    kinds = [message.content.type for message in (await client.get_prompt("test_prompt_with_image")).messages]
    expect("image" in kinds, f"no image among {kinds}")
    await rejects(client.get_prompt("no_such_prompt", {}), [-32602], "a get of an unknown prompt")


async def check_complete(client):
    prompt = PromptReference(type="ref/prompt", name="test_prompt_with_arguments")
    completion = (await client.complete(prompt, {"name": "arg1", "value": "te"})).completion
    expect(isinstance(completion.values, list), f"the values are {completion.values}")


async def check_progress(client):
    seen = []

    async def progress(value, total, message):
        seen.append(value)

    await client.call_tool("test_tool_with_progress", {}, progress_callback=progress)
    expect(len(seen) >= 3 and seen == sorted(seen), f"progress came as {seen}")


async def check_logging(client):
    if LEGACY:
        await client.set_logging_level("debug")
    await client.call_tool("test_tool_with_logging", {})
    with anyio.move_on_after(5):
        while len(LOGS) < 3:
            await anyio.sleep(0.02)
    expect(len(LOGS) >= 3, f"{len(LOGS)} log messages came")


async def on_log(params):
    LOGS.append(params)


def server():
    if CONFIG["transport"] == "http":
        return CONFIG["url"]
    return StdioServerParameters(command=CONFIG["command"], args=CONFIG["args"])


async def main():
    connected = False
    try:
        client = Client(
            server(),
            mode=MODES[CONFIG["era"]],
            logging_callback=on_log,
            log_level=None if LEGACY else "debug",
            read_timeout_seconds=CHECK_SECONDS - 5,
            **live.CALLBACKS,
        )
        async with client:
            connected = True
            await run_all(checks_in(globals()) | checks_in(vars(live)), client)
    except Exception as error:
        if not connected:
            report("connect", "fail", describe(error))
            return
        print(f"closing: {describe(error)}", file=sys.stderr)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    anyio.run(main)
