// The login of the TypeScript SDK 1.x.

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

import { clientInfo, config } from './harness.mjs';
import { runLogin } from './login.mjs';

await runLogin({
  open: (authProvider) => ({
    client: new Client(clientInfo),
    transport: new StreamableHTTPClientTransport(new URL(config.url), { authProvider }),
  }),
  finish: (transport, parameters) => transport.finishAuth(parameters.get('code')),
});
