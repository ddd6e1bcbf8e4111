"""The checks of live.mjs, for the Python SDK 2.x."""

import anyio
from harness import CONFIG, LEGACY, NotOffered, every, expect, first, until
from mcp import Client
from mcp_types import CreateMessageResult, ElicitRequestURLParams, ElicitResult, ListRootsResult, Root, TextContent
from relay import relay
from tasks import TASKS, Tasks

WATCHED = "test://watched-resource"
# The resource changes every three seconds.
CHANGE_SECONDS = 8

# The answers of the client, set by a check.
ANSWERS = {}
# (method, uri) of the notifications about changes.
NOTICES = []


async def on_message(message):
    method = getattr(message, "method", None)
    if method is not None:
        NOTICES.append((method, getattr(message.params, "uri", None)))


async def on_sample(context, params):
    return ANSWERS["sample"](params)


async def on_elicit(context, params):
    return ANSWERS["elicit"](params)


async def on_roots(context):
    return ListRootsResult(roots=[Root(uri=uri, name=uri.removeprefix("file:///")) for uri in ANSWERS["roots"]])


CALLBACKS = {
    "message_handler": on_message,
    "sampling_callback": on_sample,
    "elicitation_callback": on_elicit,
    "list_roots_callback": on_roots,
    "extensions": [TASKS],
}


def sampled(text):
    return CreateMessageResult(role="assistant", content=TextContent(type="text", text=text), model="a-model")


def accepted(**content):
    return ElicitResult(action="accept", content=content or None)


async def observed(client):
    return (await client.call_tool("observed", {})).structured_content


async def returns(client, name, arguments, expected):
    text = first(await client.call_tool(name, arguments))
    expect(text == expected, f"{name} returned {text!r} instead of {expected!r}")


async def check_sampling(client):
    asked = []

    def answer(params):
        asked.append(params)
        return sampled("forty-two")

    ANSWERS["sample"] = answer
    await returns(client, "test_sampling", {"prompt": "What is it?"}, "LLM response: forty-two")
    message = asked[0].messages[0]
    block = message.content[0] if isinstance(message.content, list) else message.content
    seen = (len(asked), message.role, block.text, asked[0].max_tokens)
    expect(seen == (1, "user", "What is it?", 100), f"the question is {seen}")


async def check_elicitation(client):
    asked = []

    def answer(*answers):
        asked.clear()

        def next_answer(params):
            asked.append(params)
            return answers[len(asked) - 1]

        ANSWERS["elicit"] = next_answer

    answer(accepted(username="mimi", email="mimi@example.com"))
    account = "User response: action=accept, username=mimi, email=mimi@example.com"
    await returns(client, "test_elicitation", {"message": "Who are you?"}, account)
    seen = (len(asked), asked[0].message, list(asked[0].requested_schema["properties"]))
    expect(seen == (1, "Who are you?", ["username", "email"]), f"the question is {seen}")

    answer(ElicitResult(action="decline"))
    declined = "Elicitation completed: action=decline, content={}"
    await returns(client, "test_elicitation_sep1034_defaults", {}, declined)
    age = asked[0].requested_schema["properties"]["age"]
    expect(age["default"] == 30, f"the age is {age}")

    answer(accepted(name="Mimi"), accepted(color="red"))
    await returns(client, "test_input_required_result_multi_round", {}, "Mimi likes red.")

    answer(accepted())
    await returns(client, "sign_in", {}, "The user went to the page.")
    sent = isinstance(asked[0], ElicitRequestURLParams) and asked[0].url == "https://example.com/sign-in"
    expect(sent, f"the page of the user is {asked[0]}")
    answer(ElicitResult(action="decline"))
    await returns(client, "sign_in", {}, "The user did not want to go.")


async def check_roots(client):
    roots = "test_input_required_result_list_roots"
    ANSWERS["roots"] = ["file:///one", "file:///two"]
    await returns(client, roots, {}, "file:///one\nfile:///two")
    ANSWERS["roots"] = ["file:///three"]
    # 2026-07-28 has no such notification: a server asks for the roots in each call.
    if LEGACY and CONFIG.get("upstream") != "modern":
        before = (await observed(client))["roots_changed"]
        await client.send_roots_list_changed()

        async def notified():
            return (await observed(client))["roots_changed"] == before + 1

        await until(notified, "the server received no notification about the roots")
    await returns(client, roots, {}, "file:///three")
    # All three kinds at once.
    ANSWERS["elicit"] = lambda params: accepted(name="Mimi")
    ANSWERS["sample"] = lambda params: sampled("Welcome,")
    await returns(client, "test_input_required_result_multiple_inputs", {}, "Welcome, Mimi, you work in 1 places.")


async def change_lists(client, seen):
    lists = {"tools": client.list_tools, "prompts": client.list_prompts}
    for kind, list_page in lists.items():
        one = kind.removesuffix("s")

        async def listed():
            return f"test_dynamic_{one}" in [entry.name for entry in await every(list_page, kind)]

        async def not_listed():
            return not await listed()

        await client.call_tool(f"test_trigger_{one}_change", {})
        await until(lambda: seen(kind), f"no change of the {kind} came")
        expect(await listed(), f"the new {one} is not listed")
        await client.call_tool(f"test_trigger_{one}_change", {})
        await until(not_listed, f"the {one} is still listed")


async def check_subscriptions(client):
    if LEGACY:

        async def updated():
            return ("notifications/resources/updated", WATCHED) in [(method, str(uri)) for method, uri in NOTICES]

        async def changed(kind):
            return f"notifications/{kind}/list_changed" in [method for method, _ in NOTICES]

        await client.subscribe_resource(WATCHED)
        await until(updated, "no update of the resource came", CHANGE_SECONDS)
        await change_lists(client, changed)
        await client.unsubscribe_resource(WATCHED)
    else:
        kinds = {"tools_list_changed": True, "prompts_list_changed": True, "resource_subscriptions": [WATCHED]}
        events = []
        async with client.listen(**kinds) as subscription, anyio.create_task_group() as group:

            async def collect():
                async for event in subscription:
                    events.append(event)

            async def updated():
                return any(getattr(event, "uri", None) == WATCHED for event in events)

            async def changed(kind):
                return f"{kind}ListChanged".lower() in [type(event).__name__.lower() for event in events]

            group.start_soon(collect)
            honored = subscription.honored
            expect(honored.tools_list_changed and honored.resource_subscriptions == [WATCHED], f"honored: {honored}")
            await until(updated, "no update of the resource came", CHANGE_SECONDS)
            await change_lists(client, changed)
            group.cancel_scope.cancel()
    echo = first(await client.call_tool("echo", {"text": "after"}))
    expect(echo == "after", f"the echo afterwards came as {echo!r}")


async def check_tasks(client):
    if LEGACY:
        raise NotOffered("the SDK has types for the tasks of 2025-11-25, but takes no task for the result of a call")
    tasks = Tasks(client)
    done = await tasks.run("slow_compute", {"seconds": 1, "label": "it"})
    expect(first(done) == "it is done.", f"the result of the task is {done}")
    expect(tasks.task_id and tasks.statuses[0] == "working", f"the task {tasks.task_id} was {tasks.statuses}")
    failed = await tasks.run("failing_job", {})
    expect(failed.is_error and first(failed), f"a failure was expected: {failed}")
    ANSWERS["elicit"] = lambda params: accepted(confirm=True)
    asked = await tasks.run("confirm_delete", {"filename": "a.txt"})
    expect(first(asked) == "Deleted a.txt.", f"the result of the task that asks is {asked}")
    expect("input_required" in tasks.statuses, f"the states of the task that asks were {tasks.statuses}")
    before = await observed(client)
    await tasks.run("slow_compute", {"seconds": 600}, cancel=True)
    expect(tasks.statuses[-1] == "cancelled", f"the states of the cancelled task were {tasks.statuses}")

    # A task that was cancelled before its handler started counts as neither finished nor dropped.
    async def ended():
        return (await observed(client))["running"] == before["running"]

    await until(ended, "the cancelled task still runs")


async def check_cancellation(client):
    before = await observed(client)

    async def runs():
        return (await observed(client))["running"] == before["running"] + 1

    async def dropped():
        now = await observed(client)
        return now["running"] == before["running"] and now["dropped"] == before["dropped"] + 1

    async with anyio.create_task_group() as group:
        group.start_soon(client.call_tool, "slow", {"ms": 40_000})
        await until(runs, "the call does not run")
        group.cancel_scope.cancel()
    await until(dropped, "the server still runs the call")


async def check_resumption(client):
    if CONFIG["transport"] == "stdio":
        raise NotOffered("stdio has no streams to resume")
    if not LEGACY:
        raise NotOffered("2026-07-28 has no resumption")
    seen = []
    async with relay(CONFIG["url"]) as broken, Client(broken.url, mode="legacy", read_timeout_seconds=25) as second:

        async def progress(value, total, message):
            seen.append(value)
            if len(seen) == 3:
                expect(broken.cut() > 0, "there was no connection to break")

        result = await second.call_tool("slow", {"ms": 3000}, progress_callback=progress)
    expect(first(result) == "That took 3000 ms.", f"the result is {result}")
    expect(seen == list(range(1, 11)), f"progress came as {seen}")
