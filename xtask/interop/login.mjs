// The checks of a login: a client without a token finds the authorization server, registers, and logs in with PKCE. The
// authorization server approves each login, so that one request replaces the browser of a person.

import { config, equal, expect, runAll } from './harness.mjs';

export const REDIRECT = 'http://127.0.0.1:9/callback';

// A provider of both major versions of the SDK, with its values in memory.
export class Provider {
  redirectUrl = REDIRECT;
  clientMetadata = {
    client_name: 'interop',
    redirect_uris: [REDIRECT],
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
    token_endpoint_auth_method: 'none',
  };
  state() {
    return 'interop-state';
  }
  clientInformation() {
    return this.client;
  }
  saveClientInformation(client) {
    this.client = client;
  }
  tokens() {
    return this.saved;
  }
  saveTokens(tokens) {
    this.saved = tokens;
  }
  saveDiscoveryState(state) {
    this.discovery = state;
  }
  discoveryState() {
    return this.discovery;
  }
  redirectToAuthorization(url) {
    this.page = url;
  }
  saveCodeVerifier(verifier) {
    this.verifier = verifier;
  }
  codeVerifier() {
    return this.verifier;
  }
}

// `open(provider)` returns {client, transport} without a connection; `finish(transport, parameters)` ends the login with
// the parameters of the redirect.
export function runLogin({ open, finish }) {
  const provider = new Provider();
  let first, client;
  const checks = {
    discovery: {
      needs: [],
      async body() {
        first = open(provider);
        const outcome = await first.client.connect(first.transport).then(
          () => 'the server accepted a client without a token',
          (error) => (error.constructor.name === 'UnauthorizedError' ? undefined : `${error.name}: ${error.message}`),
        );
        expect(outcome === undefined, outcome);
        expect(provider.page !== undefined, 'the client opened no login page');
        equal(provider.page.origin, config.issuer, 'the authorization server');
        equal(provider.page.searchParams.get('code_challenge_method'), 'S256', 'the method of PKCE');
        equal(provider.page.searchParams.get('resource'), config.url, 'the resource');
      },
    },
    registration: {
      needs: [],
      async body() {
        expect(provider.client?.client_id?.length > 0, 'the client did not register');
        equal(provider.page.searchParams.get('client_id'), provider.client.client_id, 'the id of the client');
      },
    },
    login: {
      needs: [],
      async body() {
        const answer = await fetch(provider.page, { redirect: 'manual' });
        const location = answer.headers.get('location') ?? '';
        expect(location.startsWith(REDIRECT), `status ${answer.status}, and the redirect goes to ${location}`);
        const parameters = new URL(location).searchParams;
        equal(parameters.get('state'), 'interop-state', 'the state');
        await finish(first.transport, parameters);
        expect(provider.saved?.access_token?.length > 0, 'the client has no token');
        const second = open(provider);
        await second.client.connect(second.transport);
        ({ client } = second);
      },
    },
    whoami: {
      needs: [],
      async body() {
        const { structuredContent: caller } = await client.callTool({ name: 'whoami' });
        equal(caller?.subject, 'ann', 'the subject');
        equal(caller?.client, provider.client.client_id, 'the client');
      },
    },
  };
  return runAll(checks, { close: () => client?.close() });
}
