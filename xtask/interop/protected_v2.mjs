// A server on the TypeScript SDK 2.x that requires tokens: `protected_v2.mjs PORT`. The environment names the authorization
// server, the client of the server for introspection, the URL of the server and its scopes. One tool requires another scope.

import { createServer } from 'node:http';

import { localhostHostValidation, toNodeHandler } from '@modelcontextprotocol/node';
import {
  createMcpHandler,
  getOAuthProtectedResourceMetadataUrl,
  McpServer,
  OAuthError,
  OAuthErrorCode,
  oauthMetadataResponse,
  requireBearerAuth,
  requireScopes,
} from '@modelcontextprotocol/server';
import { z } from 'zod';

const { ISSUER, RESOURCE, CLIENT_ID, CLIENT_SECRET, SCOPES } = process.env;
const resource = new URL(RESOURCE);
const scopes = SCOPES.split(' ');
const oauthMetadata = await (await fetch(`${ISSUER}/.well-known/oauth-authorization-server`)).json();

// Asks the authorization server about each token (RFC 7662).
const verifier = {
  async verifyAccessToken(token) {
    const answer = await fetch(oauthMetadata.introspection_endpoint, {
      method: 'POST',
      headers: { authorization: `Basic ${btoa(`${CLIENT_ID}:${CLIENT_SECRET}`)}` },
      body: new URLSearchParams({ token }),
    });
    const { active, sub, client_id: clientId, scope, exp: expiresAt, aud } = await answer.json();
    if (!active) throw new OAuthError(OAuthErrorCode.InvalidToken, 'the token is not active');
    const audience = aud.find((name) => name === RESOURCE);
    const named = audience === undefined ? {} : { resource: new URL(audience) };
    return { token, clientId, scopes: scope.split(' '), expiresAt, ...named, extra: { subject: sub } };
  },
};

function build() {
  const server = new McpServer({ name: 'typescript-v2', version: '1.0.0' });
  const whoami = async (_, ctx) => {
    const { clientId, scopes, extra } = ctx.http.authInfo;
    const caller = { subject: extra.subject, client: clientId, scopes };
    return { content: [{ type: 'text', text: JSON.stringify(caller) }], structuredContent: caller };
  };
  const outputSchema = z.object({ subject: z.string(), client: z.string(), scopes: z.array(z.string()) });
  const shape = { inputSchema: z.object({}), outputSchema };
  server.registerTool('whoami', { description: 'Returns the identity of the caller.', ...shape }, whoami);
  const scopeChallenge = requireScopes('notes:write');
  server.registerTool('write', { description: 'Requires another scope.', scopeChallenge, ...shape }, whoami);
  return server;
}

const resourceMetadataUrl = getOAuthProtectedResourceMetadataUrl(resource);
const gate = requireBearerAuth({ verifier, requiredScopes: scopes, resourceMetadataUrl, expectedResource: resource });
const documents = { oauthMetadata, resourceServerUrl: resource, scopesSupported: scopes };
const handler = createMcpHandler(build);
const handle = toNodeHandler({
  async fetch(request, options) {
    const document = oauthMetadataResponse(request, documents);
    if (document !== undefined) return document;
    const authInfo = await gate(request);
    return authInfo instanceof Response ? authInfo : handler.fetch(request, { ...options, authInfo });
  },
});
const isLocal = localhostHostValidation();
createServer((request, response) => {
  if (isLocal(request, response)) handle(request, response);
}).listen(Number(process.argv[2]), '127.0.0.1');
