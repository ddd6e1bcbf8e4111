// The login of the TypeScript SDK 2.x.

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';

import { clientInfo, config } from './harness.mjs';
import { runLogin } from './login.mjs';

const mode = { legacy: 'legacy', modern: { pin: '2026-07-28' }, auto: 'auto' }[config.era];

await runLogin({
  open: (authProvider) => ({
    client: new Client(clientInfo, { versionNegotiation: { mode } }),
    transport: new StreamableHTTPClientTransport(new URL(config.url), { authProvider }),
  }),
  finish: (transport, parameters) => transport.finishAuth(parameters),
});
