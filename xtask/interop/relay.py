"""A relay in front of a server that breaks every connection through it when it is told to: see relay.mjs."""

import contextlib
from urllib.parse import urlsplit

import anyio
from anyio.abc import SocketAttribute


class Relay:
    def __init__(self, url):
        self.url = url
        self._open = set()

    def cut(self):
        broken = list(self._open)
        for scope in broken:
            scope.cancel()
        return len(broken)

    async def serve(self, near, target):
        with anyio.CancelScope() as scope:
            self._open.add(scope)
            try:
                async with near, await anyio.connect_tcp(*target) as far, anyio.create_task_group() as group:

                    async def copy(source, sink):
                        with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                            async for chunk in source:
                                await sink.send(chunk)
                        group.cancel_scope.cancel()

                    group.start_soon(copy, near, far)
                    group.start_soon(copy, far, near)
            finally:
                self._open.discard(scope)


@contextlib.asynccontextmanager
async def relay(url):
    parts = urlsplit(url)
    target = (parts.hostname, parts.port)
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as group:
        port = listener.extra(SocketAttribute.local_port)
        here = Relay(parts._replace(netloc=f"127.0.0.1:{port}").geturl())
        group.start_soon(listener.serve, lambda near: here.serve(near, target))
        yield here
        group.cancel_scope.cancel()
