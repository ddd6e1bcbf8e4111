// A small server on the TypeScript SDK 2.x that speaks both eras: `server_v2.mjs stdio` or `server_v2.mjs http PORT`.

import { createServer } from 'node:http';

import { localhostHostValidation, toNodeHandler } from '@modelcontextprotocol/node';
import {
  acceptedContent,
  completable,
  createMcpHandler,
  InMemoryServerEventBus,
  inputRequired,
  McpServer,
} from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { z } from 'zod';

const NOTE = 'note://one';
// Over HTTP, where a change is told to streams of other requests.
let notifier;
const text = (words) => ({ content: [{ type: 'text', text: words }] });

// Asks once, and goes on with the answer when the call comes again.
function asking(server, name, request, answered) {
  server.registerTool(name, { description: `Asks by ${name}.`, inputSchema: z.object({}) }, async (_, ctx) => {
    const answer = ctx.mcpReq.inputResponses?.answer;
    return answer === undefined ? inputRequired({ inputRequests: { answer: request } }) : text(answered(answer, ctx));
  });
}

function build() {
  const capabilities = { resources: { subscribe: true } };
  const server = new McpServer({ name: 'typescript-v2', version: '1.0.0' }, { capabilities });
  const echo = { description: 'Says it again.', inputSchema: z.object({ text: z.string() }) };
  server.registerTool('echo', echo, async (args) => text(args.text));
  const numbers = z.object({ a: z.number(), b: z.number() });
  const add = { description: 'Adds.', inputSchema: numbers, outputSchema: z.object({ sum: z.number() }) };
  server.registerTool('add', add, async ({ a, b }) => ({ ...text(String(a + b)), structuredContent: { sum: a + b } }));

  const requestedSchema = { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] };
  asking(server, 'ask', inputRequired.elicit({ message: 'Who are you?', requestedSchema }), (_, ctx) => {
    return `Hello, ${acceptedContent(ctx.mcpReq.inputResponses, 'answer')?.name}!`;
  });
  const messages = [{ role: 'user', content: { type: 'text', text: 'What is it?' } }];
  asking(server, 'think', inputRequired.createMessage({ messages, maxTokens: 10 }), (answer) => {
    return `The model says ${answer.content.text}.`;
  });
  asking(server, 'where', inputRequired.listRoots(), (answer) => answer.roots.map((root) => root.uri).join());

  const wait = { description: 'Takes its time.', inputSchema: z.object({ ms: z.number() }) };
  server.registerTool('slow', wait, async ({ ms }, ctx) => {
    const progressToken = ctx.mcpReq._meta?.progressToken;
    for (let progress = 1; progress <= 5 && !ctx.mcpReq.signal.aborted; progress += 1) {
      await new Promise((resolve) => setTimeout(resolve, ms / 5));
      const params = { progressToken, progress, total: 5 };
      if (progressToken !== undefined) await ctx.mcpReq.notify({ method: 'notifications/progress', params });
    }
    return text('done');
  });

  server.registerTool('touch', { description: 'Changes the note.', inputSchema: z.object({}) }, async () => {
    await (notifier ? notifier.resourceUpdated(NOTE) : server.server.sendResourceUpdated({ uri: NOTE }));
    return text('touched');
  });

  const read = async () => ({ contents: [{ uri: NOTE, text: 'A note.' }] });
  server.registerResource('one', NOTE, { mimeType: 'text/plain' }, read);
  const names = completable(z.string(), (value) => ['Ada', 'Alan', 'Grace'].filter((name) => name.startsWith(value)));
  server.registerPrompt('greet', { argsSchema: z.object({ name: names }) }, ({ name }) => ({
    messages: [{ role: 'user', content: { type: 'text', text: `Greet ${name}.` } }],
  }));
  return server;
}

const [transport, port] = process.argv.slice(2);
if (transport === 'stdio') {
  serveStdio(build);
} else {
  const handler = createMcpHandler(build, { bus: new InMemoryServerEventBus() });
  notifier = handler.notify;
  const handle = toNodeHandler(handler);
  const isLocal = localhostHostValidation();
  createServer((request, response) => {
    if (isLocal(request, response)) handle(request, response);
  }).listen(Number(port), '127.0.0.1');
}
