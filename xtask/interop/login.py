"""The login of the Python SDK 2.x: see login.mjs."""

import sys
import warnings
from urllib.parse import parse_qs, urlsplit

import anyio
import httpx2
from harness import CONFIG, MODERN, checks_in, describe, expect, report, run_all
from mcp import Client
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.auth import OAuthClientMetadata

MODES = {"legacy": "legacy", "modern": MODERN, "auto": "auto"}
REDIRECT = "http://127.0.0.1:9/callback"


class Storage:
    """The tokens and the registration of the client, in memory."""

    tokens = None
    client = None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client):
        self.client = client


STORAGE = Storage()
# The parts of the login page, and the parameters of the redirect.
PAGE, ANSWER = {}, {}


def parameters(url):
    return {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}


async def visit(url):
    PAGE.update(parameters(url), origin=f"{urlsplit(url).scheme}://{urlsplit(url).netloc}")
    async with httpx2.AsyncClient() as browser:
        answer = await browser.get(url)
    location = answer.headers.get("location", "")
    expect(location.startswith(REDIRECT), f"status {answer.status_code}, and the redirect goes to {location}")
    ANSWER.update(parameters(location))


async def returned():
    return AuthorizationCodeResult(code=ANSWER["code"], state=ANSWER.get("state"), iss=ANSWER.get("iss"))


async def check_discovery(client):
    expect(PAGE.get("origin") == CONFIG["issuer"], f"the authorization server is {PAGE.get('origin')}")
    expect(PAGE.get("code_challenge_method") == "S256", f"the method of PKCE is {PAGE.get('code_challenge_method')}")
    expect(PAGE.get("resource") == CONFIG["url"], f"the resource is {PAGE.get('resource')}")


async def check_registration(client):
    expect(STORAGE.client is not None and STORAGE.client.client_id, "the client did not register")
    expect(PAGE.get("client_id") == STORAGE.client.client_id, f"the id of the client is {PAGE.get('client_id')}")


async def check_login(client):
    expect(STORAGE.tokens is not None and STORAGE.tokens.access_token, "the client has no token")


async def check_whoami(client):
    caller = (await client.call_tool("whoami", {})).structured_content
    expect(caller.get("subject") == "ann", f"the subject is {caller}")
    expect(caller.get("client") == STORAGE.client.client_id, f"the client is {caller}")


async def main():
    metadata = OAuthClientMetadata(
        client_name="interop", redirect_uris=[REDIRECT], token_endpoint_auth_method="none"
    )
    provider = OAuthClientProvider(CONFIG["url"], metadata, STORAGE, visit, returned)
    connected = False
    try:
        async with (
            create_mcp_http_client(auth=provider) as http,
            Client(streamable_http_client(CONFIG["url"], http_client=http), mode=MODES[CONFIG["era"]]) as client,
        ):
            connected = True
            if CONFIG["era"] == "modern":
                # A pinned version sends nothing before the first request.
                await client.list_tools()
            await run_all(checks_in(globals()), client)
    except Exception as error:
        if not connected or STORAGE.tokens is None:
            report("discovery", "fail", describe(error))
            return
        print(f"closing: {describe(error)}", file=sys.stderr)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    anyio.run(main)
