// The TypeScript SDK 1.x: legacy revisions only.

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import {
  CallToolResultSchema,
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  ListRootsRequestSchema,
  LoggingMessageNotificationSchema,
  PromptListChangedNotificationSchema,
  ResourceListChangedNotificationSchema,
  ResourceUpdatedNotificationSchema,
  ToolListChangedNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js';

import { run } from './checks.mjs';
import { clientInfo, config } from './harness.mjs';
import { capabilities, sdkPeer } from './sdk.mjs';

function open(url) {
  const transport =
    config.transport === 'stdio'
      ? new StdioClientTransport({ command: config.command, args: config.args })
      : new StreamableHTTPClientTransport(new URL(url));
  const client = new Client(clientInfo, { capabilities });
  const peer = sdkPeer({
    client,
    transport,
    call: (params, options) => client.callTool(params, undefined, options),
    version: () => transport.protocolVersion ?? '',
    async reopen(url) {
      const second = open(url);
      await second.connect();
      return second;
    },
    runTask: (name, args) => follow(name, args),
    async cancelTask(name, args) {
      const { statuses } = await follow(name, args, (taskId) => client.experimental.tasks.cancelTask(taskId));
      return statuses;
    },
  });

  // `start` is called once, with the id of the task.
  async function follow(name, args, start) {
    const { tasks } = client.experimental;
    const statuses = [];
    let taskId, result;
    const options = { task: { ttl: 60_000 } };
    for await (const message of tasks.callToolStream({ name, arguments: args }, CallToolResultSchema, options)) {
      if (message.type === 'taskCreated') {
        taskId = message.task.taskId;
        await start?.(taskId);
      }
      if (message.task !== undefined) statuses.push(message.task.status);
      if (message.type === 'result') result = message.result;
      if (message.type === 'error') {
        // The stream of a failed or cancelled task ends with an error. What a failed one has to say is still there.
        if (statuses.at(-1) === 'failed') result = await tasks.getTaskResult(taskId, CallToolResultSchema);
        else if (statuses.at(-1) !== 'cancelled') throw message.error;
      }
    }
    // Who can be told apart from others may list tasks.
    if (client.getServerCapabilities().tasks.list !== undefined) {
      const listed = (await tasks.listTasks()).tasks.map((task) => task.taskId);
      if (!listed.includes(taskId)) throw new Error(`the task ${taskId} is not among ${listed}`);
    }
    return { taskId, statuses, result };
  }

  client.setNotificationHandler(LoggingMessageNotificationSchema, (message) => void peer.logs.push(message.params));
  for (const schema of [
    PromptListChangedNotificationSchema,
    ResourceListChangedNotificationSchema,
    ResourceUpdatedNotificationSchema,
    ToolListChangedNotificationSchema,
  ]) {
    const keep = ({ method, params }) => void peer.notices.push({ method, uri: params?.uri });
    client.setNotificationHandler(schema, keep);
  }
  client.setRequestHandler(CreateMessageRequestSchema, (request) => peer.answers.sample(request.params));
  client.setRequestHandler(ElicitRequestSchema, (request) => peer.answers.elicit(request.params));
  client.setRequestHandler(ListRootsRequestSchema, () => peer.answers.roots());
  return peer;
}

await run(open(config.url));
