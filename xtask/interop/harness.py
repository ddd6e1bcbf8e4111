"""How the Python scripts report, and what their checks have in common: see harness.mjs."""

import base64
import json
import sys
import traceback

import anyio
from mcp import MCPError

MODERN = "2026-07-28"
CHECK_SECONDS = 30
# Who waits so long for one check, in vain, is not asked for the others.
PATIENCE_SECONDS = 15

CONFIG = json.loads(sys.argv[1])
LEGACY = CONFIG["era"] == "legacy"


class NotOffered(Exception):
    """The client, the transport or the revision has no such thing."""


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


async def until(holds, otherwise, seconds=5):
    with anyio.move_on_after(seconds):
        while not await holds():
            await anyio.sleep(0.02)
        return
    raise AssertionError(otherwise)


async def run_all(checks, client):
    for name, check in checks.items():
        started = anyio.current_time()
        try:
            with anyio.fail_after(CHECK_SECONDS):
                await check(client)
            report(name, "ok")
        except NotOffered as why:
            report(name, "n/a", str(why))
        except Exception as error:
            report(name, "fail", describe(error))
            if anyio.current_time() - started > PATIENCE_SECONDS:
                break


def checks_in(module):
    return {name.removeprefix("check_"): check for name, check in list(module.items()) if name.startswith("check_")}


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
