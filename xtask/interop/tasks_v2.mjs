// Tasks for the TypeScript SDK 2.x, by the package that its authors split off: 2025-11-25 through the client itself, the
// extension of 2026-07-28 beside it, since the SDK's own codecs refuse what the extension sends.

import { createApplicationInputHandler, createTaskSessionFromClient } from '@modelcontextprotocol/ext-tasks/client';

import { clientInfo } from './harness.mjs';
import { capabilities } from './sdk.mjs';

export function taskCalls({ client, transport, answers }) {
  async function follow(name, args, start) {
    const modern = client.getProtocolEra() === 'modern';
    const raw = modern ? rawChannel(transport) : undefined;
    const session = createTaskSessionFromClient(client, {
      endpointId: 'everything',
      ...(modern && {
        rawDispatch: raw.dispatch,
        v2RequestFraming: {
          protocolVersion: client.getNegotiatedProtocolVersion(),
          clientInfo,
          clientCapabilities: capabilities,
        },
        onInputRequest: createApplicationInputHandler({
          elicitation: (request) => answers().elicit(request.params),
          sampling: (request) => answers().sample(request.params),
          roots: () => answers().roots(),
        }),
      }),
    });
    try {
      const tool = (await client.listTools()).tools.find((tool) => tool.name === name);
      const declaration = { ...tool, ...tool.execution };
      const execution = await session.callTool(name, args, { task: { preference: 'require' }, declaration });
      const statuses = [];
      const onEvent = async (event) => {
        const task = event.type === 'task' ? event.task : event.outcome.task;
        if (task !== undefined) statuses.push(task.status);
        if (event.type === 'task' && statuses.length === 1) await start?.(execution);
      };
      const { outcome } = await execution.settle({ onEvent });
      if (outcome.status === 'cancelled') statuses.push('cancelled');
      return { taskId: execution.handle?.taskId, statuses, result: outcome.result, failed: outcome.error };
    } finally {
      await session.close();
      raw?.close();
    }
  }
  return {
    runTask: (name, args) => follow(name, args),
    async cancelTask(name, args) {
      return (await follow(name, args, (execution) => execution.cancel())).statuses;
    },
  };
}

// Requests and their answers over the transport of a client, out of its sight.
function rawChannel(transport) {
  const pending = new Map();
  const above = transport.onmessage;
  transport.onmessage = (message, extra) => {
    const answered = message.method === undefined ? pending.get(message.id) : undefined;
    if (answered === undefined) return above(message, extra);
    pending.delete(message.id);
    answered(message.error ? { kind: 'error', error: message.error } : { kind: 'result', result: message.result });
  };
  return {
    async dispatch(request, { signal } = {}) {
      const id = `raw-${(last += 1)}`;
      const answer = new Promise((resolve, reject) => {
        pending.set(id, resolve);
        signal?.addEventListener('abort', () => reject(signal.reason), { once: true });
      });
      await transport.send({ jsonrpc: '2.0', id, ...request });
      return answer;
    },
    close: () => (transport.onmessage = above),
  };
}

let last = 0;
