// The peer that both major versions of the TypeScript SDK share: their `Client` differs only in the arguments of a few
// calls.

import { config } from './harness.mjs';

// What a client must declare to be asked.
export const capabilities = {
  sampling: {},
  elicitation: { form: {}, url: {} },
  roots: { listChanged: true },
};

// The notifications about changes that are kept.
export const changes = ['resources/updated', 'resources/list_changed', 'tools/list_changed', 'prompts/list_changed'];

// `call(params, options)` and `version()` are the calls that differ; `more` is what else a version has.
export function sdkPeer({ client, transport, call, version, ...more }) {
  const logs = [];
  const pages = { tools: 'listTools', resources: 'listResources', templates: 'listResourceTemplates', prompts: 'listPrompts' };
  const members = { templates: 'resourceTemplates' };
  return {
    logs,
    notices: [],
    answers: {},
    aborts: true,
    // The SDK puts a notification off and handles a response at once, so that over stdio it drops progress that arrives
    // in one read with the result: typescript-sdk issue 2580. The fixture reports its last progress right before.
    progress: config.transport === 'stdio' ? 2 : 3,
    codes: true,
    async connect() {
      await client.connect(transport);
      return { name: client.getServerVersion()?.name, version: version() };
    },
    async close() {
      await transport.terminateSession?.();
      await client.close();
    },
    async list(kind) {
      const entries = [];
      let cursor;
      do {
        const page = await client[pages[kind]](cursor === undefined ? undefined : { cursor });
        entries.push(...page[members[kind] ?? kind]);
        cursor = page.nextCursor;
      } while (cursor !== undefined);
      return entries;
    },
    callTool(name, args, { onProgress, logLevel, signal } = {}) {
      const params = { name, ...(args && { arguments: args }) };
      if (logLevel !== undefined) params._meta = { 'io.modelcontextprotocol/logLevel': logLevel };
      return call(params, { ...(onProgress && { onprogress: onProgress }), ...(signal && { signal }) });
    },
    readResource: (uri) => client.readResource({ uri }),
    getPrompt: (name, args) => client.getPrompt({ name, ...(args && { arguments: args }) }),
    complete: (ref, argument) => client.complete({ ref, argument }),
    setLogLevel: (level) => client.setLoggingLevel(level),
    rootsChanged: () => client.sendRootsListChanged(),
    async subscribe(uri) {
      await client.subscribeResource({ uri });
      return { close: () => client.unsubscribeResource({ uri }) };
    },
    ...more,
  };
}
