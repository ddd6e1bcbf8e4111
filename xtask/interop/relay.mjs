// A relay in front of a server that breaks every connection through it when it is told to.

import { connect, createServer } from 'node:net';

export async function relay(url) {
  const { hostname, port } = new URL(url);
  const open = new Set();
  const server = createServer((near) => {
    const far = connect(Number(port), hostname);
    const both = [near, far];
    for (const socket of both) {
      open.add(socket);
      // Broken connections are what this is for.
      socket.on('error', () => {});
      socket.on('close', () => {
        open.delete(socket);
        for (const other of both) other.destroy();
      });
    }
    near.pipe(far).pipe(near);
  });
  await new Promise((resolve, reject) => server.once('error', reject).listen(0, '127.0.0.1', resolve));
  const cut = () => {
    const broken = [...open];
    for (const socket of broken) socket.destroy();
    return broken.length;
  };
  const close = () => {
    server.close();
    cut();
  };
  const here = new URL(url);
  here.port = String(server.address().port);
  return { url: here.href, cut, close };
}
