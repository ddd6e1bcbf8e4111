"""A server on the Python SDK 2.x that requires tokens: `protected_v2.py PORT`. The environment names the authorization server,
the client of the server for introspection, the URL of the server and its scopes."""

import os
import sys

import httpx2
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver import MCPServer
from pydantic import BaseModel

ISSUER, RESOURCE = os.environ["ISSUER"], os.environ["RESOURCE"]
CREDENTIALS = (os.environ["CLIENT_ID"], os.environ["CLIENT_SECRET"])


class Introspection:
    """Asks the authorization server about each token (RFC 7662)."""

    url = None

    async def verify_token(self, token):
        async with httpx2.AsyncClient() as client:
            if self.url is None:
                metadata = await client.get(f"{ISSUER}/.well-known/oauth-authorization-server")
                self.url = metadata.json()["introspection_endpoint"]
            answer = (await client.post(self.url, data={"token": token}, auth=CREDENTIALS)).json()
        if not answer.get("active"):
            return None
        return AccessToken(
            token=token,
            client_id=answer["client_id"],
            scopes=answer.get("scope", "").split(),
            expires_at=answer["exp"],
            resource=next((audience for audience in answer["aud"] if audience == RESOURCE), None),
            subject=answer["sub"],
        )


auth = AuthSettings(
    issuer_url=ISSUER,
    resource_server_url=RESOURCE,
    required_scopes=os.environ["SCOPES"].split(),
    validate_token_resource=True,
)
server = MCPServer("python-v2", version="1.0.0", auth=auth, token_verifier=Introspection())


class Caller(BaseModel):
    subject: str
    client: str
    scopes: list[str]


@server.tool()
def whoami() -> Caller:
    """Returns the identity of the caller."""
    token = get_access_token()
    return Caller(subject=token.subject, client=token.client_id, scopes=token.scopes)


if __name__ == "__main__":
    server.run(transport="streamable-http", port=int(sys.argv[1]))
