// The checks of each JavaScript client with the example server `everything`.
//
// A client file has a *peer*: an object with the functions below. A peer lacks the functions that its client does not
// offer, and the report has n/a for them. `without` has the reasons, by the names of these functions.
//
//   connect()                       -> {name, version}  name of the server, protocol version ('' if it is unknown)
//   close()
//   list(kind)                      -> every entry of 'tools' | 'resources' | 'templates' | 'prompts'
//   callTool(name, args, {onProgress, logLevel}?)
//   readResource(uri), getPrompt(name, args), complete(ref, argument)
//   setLogLevel(level)              legacy revisions only
//   logs                            an array that log messages arrive in
//   progress                        the number of the three progress notifications of a call that must arrive
//   codes                           true if errors keep their JSON-RPC code
//   parallel                        the number of calls at the same time. Default: 16
//
// live.mjs describes its further members.

import { config, equal, expect, first, isPng, names, rejects, runAll, until } from './harness.mjs';
import { LIVE } from './live.mjs';

const MODERN = '2026-07-28';

export const run = (peer) => runAll({ ...CHECKS, ...LIVE }, peer);

const CHECKS = {
  connect: {
    needs: ['connect'],
    async body(peer) {
      const { name, version } = await peer.connect();
      expect(typeof name === 'string' && name.length > 0, `the server's name is ${JSON.stringify(name)}`);
      const modern = config.era !== 'legacy';
      const right = version === '' || (modern ? version === MODERN : /^202[45]-/.test(version));
      expect(right, `version ${version} was negotiated where the ${config.era} era was asked for`);
    },
  },
  tools: {
    needs: ['list'],
    async body(peer) {
      const tools = await peer.list('tools');
      names(tools, 'name', ['echo', 'add', 'big', 'test_simple_text', 'test_error_handling']);
      for (const tool of tools) equal(tool.inputSchema?.type, 'object', `type of the input schema of ${tool.name}`);
    },
  },
  call: {
    needs: ['callTool'],
    async body(peer) {
      const text = 'grüße, 世界 🌍, "quotes", \\ and\na second line';
      equal(first(await peer.callTool('echo', { text })), text, 'the echo');
      const sum = await peer.callTool('add', { a: 2, b: 3 });
      expect(/\b5\b/.test(first(sum)), `2 + 3 came as ${first(sum)}`);
      const typed = sum.structuredContent;
      expect(typed !== undefined && Object.values(typed).includes(5), `typed, 2 + 3 came as ${JSON.stringify(typed)}`);
      equal(first(await peer.callTool('test_simple_text')).length > 0, true, 'a call without arguments');
      await Promise.all(
        [...Array(peer.parallel ?? 16).keys()].map(async (n) => {
          equal(first(await peer.callTool('echo', { text: `call ${n}` })), `call ${n}`, 'an echo among others');
        }),
      );
    },
  },
  big: {
    needs: ['callTool'],
    async body(peer) {
      equal(first(await peer.callTool('big', { n: 300_000 })).length, 300_000, 'length of the text');
    },
  },
  content: {
    needs: ['callTool'],
    async body(peer) {
      const of = async (tool) => (await peer.callTool(tool)).content;
      const [image] = await of('test_image_content');
      expect(image.type === 'image' && image.mimeType === 'image/png' && isPng(image.data), 'no PNG came');
      const [audio] = await of('test_audio_content');
      expect(audio.type === 'audio' && audio.mimeType === 'audio/wav' && audio.data.length > 0, 'no WAV came');
      const [embedded] = await of('test_embedded_resource');
      expect(embedded.type === 'resource' && typeof embedded.resource.text === 'string', 'no embedded resource came');
      const kinds = (await of('test_multiple_content_types')).map((item) => item.type);
      equal(kinds.join(), 'text,image,resource', 'kinds of content');
    },
  },
  error: {
    needs: ['callTool'],
    async body(peer) {
      const failed = await peer.callTool('test_error_handling');
      expect(failed.isError === true && first(failed).length > 0, 'isError and a text were expected');
      const invalid = await peer.callTool('add', { a: 'two', b: 3 });
      expect(invalid.isError === true && first(invalid).length > 0, 'isError for wrong arguments was expected');
      await rejects(peer, peer.callTool('no_such_tool', {}), [-32602], 'a call of an unknown tool');
      equal(first(await peer.callTool('echo', { text: 'still there' })), 'still there', 'the echo afterwards');
    },
  },
  resources: {
    needs: ['list'],
    async body(peer) {
      names(await peer.list('resources'), 'uri', ['test://static-text', 'test://static-binary']);
    },
  },
  read: {
    needs: ['readResource'],
    async body(peer) {
      const [text] = (await peer.readResource('test://static-text')).contents;
      expect(text.mimeType === 'text/plain' && text.text.length > 0, `the text came as ${JSON.stringify(text)}`);
      const [binary] = (await peer.readResource('test://static-binary')).contents;
      expect(binary.mimeType === 'image/png' && isPng(binary.blob), 'no PNG came');
      await rejects(peer, peer.readResource('test://no-such-resource'), [-32002, -32602], 'a read of an unknown resource');
    },
  },
  templates: {
    needs: ['list', 'readResource'],
    async body(peer) {
      names(await peer.list('templates'), 'uriTemplate', ['test://template/{id}/data']);
      const [data] = (await peer.readResource('test://template/123/data')).contents;
      equal(data.uri, 'test://template/123/data', 'the uri');
      equal(JSON.parse(data.text).id, '123', 'the variable');
    },
  },
  prompts: {
    needs: ['list'],
    async body(peer) {
      const prompts = await peer.list('prompts');
      names(prompts, 'name', ['test_simple_prompt', 'test_prompt_with_arguments', 'test_prompt_with_image']);
      const args = prompts.find((prompt) => prompt.name === 'test_prompt_with_arguments').arguments;
      equal(args.map((arg) => `${arg.name}:${arg.required}`).join(), 'arg1:true,arg2:true', 'its arguments');
    },
  },
  prompt: {
    needs: ['getPrompt'],
    async body(peer) {
      const simple = (await peer.getPrompt('test_simple_prompt')).messages;
      expect(simple[0].role === 'user' && simple[0].content.text.length > 0, 'no simple prompt came');
      const filled = (await peer.getPrompt('test_prompt_with_arguments', { arg1: 'left', arg2: 'right' })).messages;
      const { text } = filled[0].content;
      expect(text.includes('left') && text.includes('right'), `the arguments are not in ${text}`);
      const image = (await peer.getPrompt('test_prompt_with_image')).messages.map((message) => message.content.type);
      expect(image.includes('image'), `no image among ${image}`);
      await rejects(peer, peer.getPrompt('no_such_prompt', {}), [-32602], 'a get of an unknown prompt');
    },
  },
  complete: {
    needs: ['complete'],
    async body(peer) {
      const ref = { type: 'ref/prompt', name: 'test_prompt_with_arguments' };
      const { completion } = await peer.complete(ref, { name: 'arg1', value: 'te' });
      expect(Array.isArray(completion.values), `the values came as ${JSON.stringify(completion.values)}`);
    },
  },
  progress: {
    needs: ['callTool', 'progress'],
    async body(peer) {
      const seen = [];
      await peer.callTool('test_tool_with_progress', {}, { onProgress: (update) => seen.push(update.progress) });
      const rising = seen.every((value, index) => index === 0 || value >= seen[index - 1]);
      expect(seen.length >= peer.progress && rising, `progress came as ${JSON.stringify(seen)}`);
    },
  },
  logging: {
    // A client that cannot show messages may still set the level of a session.
    needs: ['setLogLevel'],
    async body(peer) {
      const legacy = config.era === 'legacy';
      if (legacy) await peer.setLogLevel('debug');
      if (peer.logs === undefined) return;
      await peer.callTool('test_tool_with_logging', {}, legacy ? {} : { logLevel: 'debug' });
      await until(() => peer.logs.length >= 3, () => `${peer.logs.length} log messages came`);
    },
  },
};
