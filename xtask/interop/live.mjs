// The checks of a JavaScript client with requests of the server, notifications and long calls. A peer has these members
// beside those of checks.mjs:
//
//   answers                         the answers of the client: {elicit(params), sample(params), roots()}, set by a check
//   rootsChanged()                  legacy revisions only
//   subscribe(uri)                  -> {close()}, to a resource and to the lists
//   notices                         an array that {method, uri} of notifications about changes arrive in
//   runTask(name, args)             -> {taskId, statuses, result}, or {taskId, statuses, failed}, an error
//   taskQuestions                   false if a task cannot ask
//   cancelTask(name, args)          -> the statuses of a task that the client cancels while it works
//   callTool(.., {signal})          with `aborts` set, if the client can cancel a call
//   reopen(url)                     -> another peer of the kind, for a server at another URL

import { config, equal, expect, first, until } from './harness.mjs';
import { relay } from './relay.mjs';

const WATCHED = 'test://watched-resource';
// The resource changes every three seconds.
const CHANGE_MS = 8_000;

const legacy = config.era === 'legacy';

async function observed(peer) {
  return (await peer.callTool('observed')).structuredContent;
}

async function returns(peer, name, args, expected) {
  const result = await peer.callTool(name, args);
  equal(first(result), expected, `the result of ${name}`);
}

export const LIVE = {
  sampling: {
    needs: ['answers'],
    async body(peer) {
      const asked = [];
      peer.answers.sample = (params) => {
        asked.push(params);
        const content = { type: 'text', text: 'forty-two' };
        return { role: 'assistant', content, model: 'a-model', stopReason: 'endTurn' };
      };
      await returns(peer, 'test_sampling', { prompt: 'What is it?' }, 'LLM response: forty-two');
      const [{ messages, maxTokens }] = asked;
      const { role, content } = messages[0];
      const text = (Array.isArray(content) ? content[0] : content).text;
      equal([asked.length, role, text, maxTokens].join(), '1,user,What is it?,100', 'the question');
    },
  },
  elicitation: {
    needs: ['answers'],
    async body(peer) {
      const asked = [];
      const answer = (answers) => {
        asked.length = 0;
        peer.answers.elicit = (params) => {
          asked.push(params);
          return answers[asked.length - 1];
        };
      };
      answer([{ action: 'accept', content: { username: 'mimi', email: 'mimi@example.com' } }]);
      const account = 'User response: action=accept, username=mimi, email=mimi@example.com';
      await returns(peer, 'test_elicitation', { message: 'Who are you?' }, account);
      const [{ message, mode, requestedSchema }] = asked;
      equal(`${asked.length} ${message} ${mode ?? 'form'}`, '1 Who are you? form', 'the question');
      equal(Object.keys(requestedSchema.properties).join(), 'username,email', 'the fields');

      answer([{ action: 'decline' }]);
      await returns(peer, 'test_elicitation_sep1034_defaults', {}, 'Elicitation completed: action=decline, content={}');
      equal(asked[0].requestedSchema.properties.age.default, 30, 'a default');

      answer([{ action: 'accept', content: { name: 'Mimi' } }, { action: 'accept', content: { color: 'red' } }]);
      await returns(peer, 'test_input_required_result_multi_round', {}, 'Mimi likes red.');

      answer([{ action: 'accept' }]);
      await returns(peer, 'sign_in', {}, 'The user went to the page.');
      equal(`${asked[0].mode} ${asked[0].url}`, 'url https://example.com/sign-in', 'the page of the user');
      answer([{ action: 'decline' }]);
      await returns(peer, 'sign_in', {}, 'The user did not want to go.');
    },
  },
  roots: {
    needs: ['answers'],
    async body(peer) {
      let uris = ['file:///one', 'file:///two'];
      peer.answers.roots = () => ({ roots: uris.map((uri) => ({ uri, name: uri.slice(8) })) });
      await returns(peer, 'test_input_required_result_list_roots', {}, 'file:///one\nfile:///two');
      uris = ['file:///three'];
      // 2026-07-28 has no such notification: a server asks for the roots in each call.
      if (legacy && config.upstream !== 'modern') {
        const before = (await observed(peer)).roots_changed;
        await peer.rootsChanged();
        const seen = async () => (await observed(peer)).roots_changed === before + 1;
        await until(seen, () => 'the server received no notification about the roots');
      }
      await returns(peer, 'test_input_required_result_list_roots', {}, 'file:///three');
      // All three kinds at once.
      peer.answers.elicit = () => ({ action: 'accept', content: { name: 'Mimi' } });
      const content = { type: 'text', text: 'Welcome,' };
      peer.answers.sample = () => ({ role: 'assistant', content, model: 'a-model' });
      await returns(peer, 'test_input_required_result_multiple_inputs', {}, 'Welcome, Mimi, you work in 1 places.');
    },
  },
  subscriptions: {
    needs: ['subscribe'],
    async body(peer) {
      const seen = (method) => () => peer.notices.some((notice) => notice.method === `notifications/${method}`);
      const subscription = await peer.subscribe(WATCHED);
      await until(seen('resources/updated'), () => 'no update of the resource came', CHANGE_MS);
      const [{ uri }] = peer.notices.filter((notice) => notice.method === 'notifications/resources/updated');
      equal(uri, WATCHED, 'the uri of the update');
      for (const kind of ['tools', 'prompts']) {
        const tool = `test_trigger_${kind.slice(0, -1)}_change`;
        await peer.callTool(tool);
        await until(seen(`${kind}/list_changed`), () => `no change of the ${kind} came`);
        const names = async () => (await peer.list(kind)).map((entry) => entry.name);
        const dynamic = `test_dynamic_${kind.slice(0, -1)}`;
        expect((await names()).includes(dynamic), `${dynamic} is not listed`);
        await peer.callTool(tool);
        // A client that caches lists drops them after the notification, so the check waits.
        await until(async () => !(await names()).includes(dynamic), () => `${dynamic} is still listed`);
      }
      await subscription.close();
      equal(first(await peer.callTool('echo', { text: 'after' })), 'after', 'the echo afterwards');
    },
  },
  tasks: {
    needs: ['runTask'],
    async body(peer) {
      const done = await peer.runTask('slow_compute', { seconds: 1, label: 'it' });
      expect(typeof done.taskId === 'string' && done.taskId.length > 0, `the id of the task is ${done.taskId}`);
      equal(first(done.result), 'it is done.', 'the result of the task');
      expect(done.statuses[0] === 'working', `the states of the task were ${done.statuses}`);

      const failed = await peer.runTask('failing_job', {});
      const said = failed.failed?.message ?? (failed.result.isError && first(failed.result));
      expect(typeof said === 'string' && said.length > 0, `a failure was expected: ${JSON.stringify(failed)}`);

      if (peer.taskQuestions !== false) {
        peer.answers.elicit = () => ({ action: 'accept', content: { confirm: true } });
        const asked = await peer.runTask('confirm_delete', { filename: 'a.txt' });
        equal(first(asked.result), 'Deleted a.txt.', 'the result of the task that asks');
      }

      const before = await observed(peer);
      const cancelled = await peer.cancelTask('slow_compute', { seconds: 600 });
      equal(cancelled.at(-1), 'cancelled', 'the last state of the cancelled task');
      // A task that was cancelled before its handler started counts as neither finished nor dropped.
      const ended = async () => (await observed(peer)).running === before.running;
      await until(ended, () => 'the cancelled task still runs');
    },
  },
  cancellation: {
    needs: ['aborts'],
    async body(peer) {
      const before = await observed(peer);
      const abort = new AbortController();
      const call = peer.callTool('slow', { ms: 40_000 }, { signal: abort.signal });
      const ended = call.then(
        () => 'came to its end',
        () => 'failed',
      );
      const runs = async () => (await observed(peer)).running === before.running + 1;
      await until(runs, () => 'the call does not run');
      abort.abort('not needed any more');
      equal(await ended, 'failed', 'the call');
      const dropped = async () => {
        const { running, dropped } = await observed(peer);
        return running === before.running && dropped === before.dropped + 1;
      };
      await until(dropped, () => 'the server still runs the call');
    },
  },
  resumption: {
    needs: ['reopen'],
    only() {
      if (config.transport === 'stdio') return 'stdio has no streams to resume';
      return legacy ? undefined : '2026-07-28 has no resumption';
    },
    async body(peer) {
      const broken = await relay(config.url);
      const second = await peer.reopen(broken.url);
      try {
        const seen = [];
        const onProgress = ({ progress }) => {
          seen.push(progress);
          if (seen.length === 3) expect(broken.cut() > 0, 'there was no connection to break');
        };
        const result = await second.callTool('slow', { ms: 3_000 }, { onProgress });
        equal(first(result), 'That took 3000 ms.', 'the result');
        equal(seen.join(), '1,2,3,4,5,6,7,8,9,10', 'the progress');
      } finally {
        await second.close().catch(() => {});
        broken.close();
      }
    },
  },
};
