// The TypeScript SDK 2.x: both eras, and the probe that finds out which. Tasks are a package of their own there.

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

import { run } from './checks.mjs';
import { clientInfo, config } from './harness.mjs';
import { capabilities, changes, sdkPeer } from './sdk.mjs';
import { taskCalls } from './tasks_v2.mjs';

const mode = { legacy: 'legacy', modern: { pin: '2026-07-28' }, auto: 'auto' }[config.era];
const legacy = config.era === 'legacy';

function open(url) {
  const transport =
    config.transport === 'stdio'
      ? new StdioClientTransport({ command: config.command, args: config.args })
      : new StreamableHTTPClientTransport(new URL(url));
  const client = new Client(clientInfo, { capabilities, versionNegotiation: { mode } });
  const peer = sdkPeer({
    client,
    transport,
    call: (params, options) => client.callTool(params, options),
    version: () => client.getNegotiatedProtocolVersion() ?? '',
    async reopen(url) {
      const second = open(url);
      await second.connect();
      return second;
    },
    ...taskCalls({ client, transport, answers: () => peer.answers }),
    // The package waits for the end of a task without asking for its result (which 2025-11-25 wants when there is a
    // question), so that over HTTP there is no stream that the question could come on.
    taskQuestions: !(legacy && config.transport === 'http'),
    ...(!legacy && {
      subscribe: (uri) =>
        client.listen({ toolsListChanged: true, promptsListChanged: true, resourceSubscriptions: [uri] }),
    }),
  });
  client.setNotificationHandler('notifications/message', (message) => void peer.logs.push(message.params));
  for (const change of changes) {
    const keep = ({ method, params }) => void peer.notices.push({ method, uri: params?.uri });
    client.setNotificationHandler(`notifications/${change}`, keep);
  }
  client.setRequestHandler('sampling/createMessage', (request) => peer.answers.sample(request.params));
  client.setRequestHandler('elicitation/create', (request) => peer.answers.elicit(request.params));
  client.setRequestHandler('roots/list', () => peer.answers.roots());
  return peer;
}

await run(open(config.url));
