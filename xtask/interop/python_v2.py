"""The Python SDK 2.x against the example server `everything`: the checks and the reports of checks.mjs."""

import base64
import json
import sys
import traceback
import warnings

import anyio
from mcp import Client, MCPError, StdioServerParameters
from mcp_types import PromptReference

MODERN = "2026-07-28"
CHECK_SECONDS = 30
# Who waits so long for one check, in vain, is not asked for the others.
PATIENCE_SECONDS = 15

CONFIG = json.loads(sys.argv[1])
MODES = {"legacy": "legacy", "modern": MODERN, "auto": "auto"}

LOGS = []


def expect(holds, otherwise):
    if not holds:
        raise AssertionError(otherwise)


def names(entries, member, expected):
    seen = [getattr(entry, member) for entry in entries]
    expect(len(set(seen)) == len(seen), f"something is listed twice: {seen}")
    for name in expected:
        expect(name in seen, f"{name} is not among {seen}")


def first(result):
    item = result.content[0]
    expect(item.type == "text", f"a text was expected first: {item}")
    return item.text


def is_png(data):
    return base64.b64decode(data)[1:4] == b"PNG"


async def rejects(call, codes, what):
    try:
        result = await call
    except MCPError as error:
        expect(error.code in codes, f"{what} failed with [{error.code}] {error.message}")
        return
    raise AssertionError(f"{what} succeeded: {result}")


async def every(call, member):
    entries, cursor = [], None
    while True:
        page = await call(cursor=cursor)
        entries += getattr(page, member)
        cursor = page.next_cursor
        if cursor is None:
            return entries


async def check_connect(client):
    version, legacy = client.protocol_version, CONFIG["era"] == "legacy"
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
    if CONFIG["era"] == "legacy":
        await client.set_logging_level("debug")
    await client.call_tool("test_tool_with_logging", {})
    with anyio.move_on_after(5):
        while len(LOGS) < 3:
            await anyio.sleep(0.02)
    expect(len(LOGS) >= 3, f"{len(LOGS)} log messages came")


CHECKS = {name.removeprefix("check_"): check for name, check in list(globals().items()) if name.startswith("check_")}


def report(check, status, reason=""):
    print(json.dumps({"check": check, "status": status, "reason": reason}), flush=True)


def describe(error):
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, MCPError):
        return f"[{error.code}] {error.message}"
    if isinstance(error, TimeoutError):
        return f"no answer within {CHECK_SECONDS} s"
    return str(error) if isinstance(error, AssertionError) else "".join(traceback.format_exception_only(error)).strip()


async def on_log(params):
    LOGS.append(params)


def server():
    if CONFIG["transport"] == "http":
        return CONFIG["url"]
    return StdioServerParameters(command=CONFIG["command"], args=CONFIG["args"])


async def main():
    era = CONFIG["era"]
    level = None if era == "legacy" else "debug"
    connected = False
    try:
        client = Client(
            server(),
            mode=MODES[era],
            logging_callback=on_log,
            log_level=level,
            read_timeout_seconds=CHECK_SECONDS - 5,
        )
        async with client:
            connected = True
            for name, check in CHECKS.items():
                started = anyio.current_time()
                try:
                    with anyio.fail_after(CHECK_SECONDS):
                        await check(client)
                    report(name, "ok")
                except Exception as error:
                    report(name, "fail", describe(error))
                    if anyio.current_time() - started > PATIENCE_SECONDS:
                        break
    except Exception as error:
        if not connected:
            report("connect", "fail", describe(error))
            return
        print(f"closing: {describe(error)}", file=sys.stderr)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    anyio.run(main)
