// The TypeScript SDK 2.x: both eras, and the probe that finds out which.

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

import { clientInfo, config, run } from './checks.mjs';
import { sdkPeer } from './sdk.mjs';

const mode = { legacy: 'legacy', modern: { pin: '2026-07-28' }, auto: 'auto' }[config.era];
const transport =
  config.transport === 'stdio'
    ? new StdioClientTransport({ command: config.command, args: config.args })
    : new StreamableHTTPClientTransport(new URL(config.url));
const client = new Client(clientInfo, { capabilities: {}, versionNegotiation: { mode } });
const peer = sdkPeer({
  client,
  transport,
  call: (params, options) => client.callTool(params, options),
  version: () => client.getNegotiatedProtocolVersion() ?? '',
});
client.setNotificationHandler('notifications/message', (message) => void peer.logs.push(message.params));
await run(peer);
