// The TypeScript SDK 1.x: legacy revisions only.

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { LoggingMessageNotificationSchema } from '@modelcontextprotocol/sdk/types.js';

import { clientInfo, config, run } from './checks.mjs';
import { sdkPeer } from './sdk.mjs';

const transport =
  config.transport === 'stdio'
    ? new StdioClientTransport({ command: config.command, args: config.args })
    : new StreamableHTTPClientTransport(new URL(config.url));
const client = new Client(clientInfo, { capabilities: {} });
const peer = sdkPeer({
  client,
  transport,
  call: (params, options) => client.callTool(params, undefined, options),
  version: () => transport.protocolVersion ?? '',
});
client.setNotificationHandler(LoggingMessageNotificationSchema, (message) => void peer.logs.push(message.params));
await run(peer);
