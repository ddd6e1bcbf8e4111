// How the scripts of the clients report, and what their checks have in common.
//
// One line of JSON per check goes to stdout: {check, status: ok|fail|n/a, reason}. A check is {needs, only, body}: the
// functions of the peer that it calls, where it makes sense at all (a reason against it, or nothing), and what it does.

const CHECK_MS = 30_000;
// Who waits so long for one check, in vain, is not asked for the others.
const PATIENCE_MS = 15_000;

// Nothing but this config reaches a client: {transport: 'stdio', command, args} or {transport: 'http', url}; era. Behind a
// gateway, upstream is the era of the server.
export const config = JSON.parse(process.argv[2]);

export const clientInfo = { name: 'interop', version: '1.0.0' };

export async function runAll(checks, peer) {
  for (const [check, { needs, only, body }] of Object.entries(checks)) {
    const missing = needs.find((name) => peer[name] === undefined);
    const reason = only?.() ?? (missing && (peer.without?.[missing] ?? `the client has no ${missing}`));
    if (reason !== undefined) {
      report(check, 'n/a', reason);
      continue;
    }
    const started = Date.now();
    try {
      await bounded(body(peer), CHECK_MS);
      report(check, 'ok');
    } catch (error) {
      report(check, 'fail', describe(error));
      if (check === 'connect' || Date.now() - started > PATIENCE_MS) break;
    }
  }
  await bounded(Promise.resolve(peer.close?.()), 5_000).catch((error) => console.error(`close: ${describe(error)}`));
  process.exit(0);
}

export function describe(error) {
  const code = error?.code === undefined ? '' : `[${error.code}] `;
  return `${code}${error?.message ?? String(error)}`;
}

function report(check, status, reason = '') {
  process.stdout.write(`${JSON.stringify({ check, status, reason })}\n`);
}

export function expect(holds, otherwise) {
  if (!holds) throw new Error(otherwise);
}

export function equal(seen, expected, what) {
  expect(seen === expected, `${what}: ${JSON.stringify(seen)} instead of ${JSON.stringify(expected)}`);
}

export function names(entries, member, expected) {
  const seen = entries.map((entry) => entry[member]);
  expect(new Set(seen).size === seen.length, `something is listed twice: ${seen}`);
  for (const name of expected) expect(seen.includes(name), `${name} is not among ${seen}`);
}

export function first(result) {
  const [item] = result.content;
  expect(item?.type === 'text', `a text was expected first: ${JSON.stringify(item)}`);
  return item.text;
}

export function isPng(base64) {
  return Buffer.from(base64, 'base64').subarray(1, 4).toString() === 'PNG';
}

export async function rejects(peer, promise, codes, what) {
  const result = await promise.then(
    (value) => ({ value }),
    (error) => ({ error }),
  );
  expect(result.error !== undefined, `${what} succeeded: ${JSON.stringify(result.value)}`);
  const right = peer.codes ? codes.includes(result.error.code) : result.error.timeout === undefined;
  expect(right, `${what} failed with ${describe(result.error)}`);
}

export async function until(holds, otherwise, ms = 5_000) {
  const deadline = Date.now() + ms;
  while (!(await holds())) {
    expect(Date.now() < deadline, otherwise());
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

export function bounded(promise, ms) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer within ${ms / 1000} s`)), ms);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}
