// The MCP Inspector's command line: one process and one connection per request. It offers neither completion nor a view
// of progress and log messages.

import { execFile } from 'node:child_process';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

import { run } from './checks.mjs';
import { config } from './harness.mjs';

// The package exports nothing, so that its command is found by the name in its manifest.
const require = createRequire(import.meta.url);
const home = dirname(require.resolve('@modelcontextprotocol/inspector/package.json'));
const command = join(home, require('@modelcontextprotocol/inspector/package.json').bin['mcp-inspector']);

const target =
  config.transport === 'stdio' ? [config.command, ...config.args] : [config.url, '--transport', 'http'];

function inspect(method, ...args) {
  const line = [command, '--cli', ...target, '--method', method, ...args];
  line.push('--protocol-era', config.era, '--format', 'json', '--quiet', '--connect-timeout', '15000');
  return new Promise((resolve, reject) => {
    const limits = { timeout: 25_000, killSignal: 'SIGKILL', maxBuffer: 32 * 1024 * 1024 };
    execFile(process.execPath, line, limits, (error, stdout, stderr) => {
      // A tool's own error is an exit status of 5, with the result on stdout as ever.
      try {
        resolve(JSON.parse(stdout).result);
      } catch {
        reject(Object.assign(new Error(problem(error, stderr)), error?.killed && { timeout: true }));
      }
    });
  });
}

function problem(error, stderr) {
  if (error?.killed) return 'the Inspector did not end within 25 s';
  try {
    return JSON.parse(stderr.trim().split('\n').at(-1)).error.message;
  } catch {
    return stderr.trim() || String(error ?? 'no result was printed');
  }
}

function pairs(option, args) {
  const entries = Object.entries(args ?? {});
  return entries.length === 0 ? [] : [option, ...entries.map(([name, value]) => `${name}=${value}`)];
}

const methods = { tools: 'tools/list', resources: 'resources/list', templates: 'resources/templates/list', prompts: 'prompts/list' };
const members = { templates: 'resourceTemplates' };

// Whatever needs more than one request of a connection, or a word of the user in between.
const alone = 'the command line makes one request and ends';
const live = ['answers', 'subscribe', 'runTask', 'aborts', 'reopen'];

await run({
  without: Object.fromEntries(live.map((name) => [name, alone])),
  // Every call is a process: a few at once are as much as a small machine takes.
  parallel: 2,
  async connect() {
    const { serverInfo, protocolVersion } = await inspect('initialize');
    return { name: serverInfo?.name, version: protocolVersion ?? '' };
  },
  list: async (kind) => (await inspect(methods[kind]))[members[kind] ?? kind],
  callTool: (name, args) =>
    inspect('tools/call', '--tool-name', name, ...(args ? ['--tool-args-json', JSON.stringify(args)] : [])),
  readResource: (uri) => inspect('resources/read', '--uri', uri),
  getPrompt: (name, args) => inspect('prompts/get', '--prompt-name', name, ...pairs('--prompt-args', args)),
  ...(config.era === 'legacy' && { setLogLevel: (level) => inspect('logging/setLevel', '--log-level', level) }),
});
