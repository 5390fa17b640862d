"""Drives the locks of redis-py (sync and asyncio), python-redis-lock and pottery.

The protocol is described in ../PROTOCOL.md; the kind says which library it is.
"""

import asyncio
import importlib.metadata
import math
import sys

import redis


class Unsupported(Exception):
    """What the library can't do."""


class RedisPy:
    package = "redis"

    def __init__(self, url):
        self.client = redis.Redis.from_url(url)
        self.client.ping()

    def acquire(self, name, ttl_ms, wait_ms):
        self.lock = self.client.lock(
            name, timeout=ttl_ms / 1000, blocking=wait_ms > 0, blocking_timeout=wait_ms / 1000 or None
        )
        return self.lock.local.token if self.lock.acquire() else None

    def release(self):
        try:
            self.lock.release()
        except redis.exceptions.LockError:
            return False
        return True

    def extend(self, ttl_ms):
        try:
            return self.lock.extend(ttl_ms / 1000, replace_ttl=True)
        except redis.exceptions.LockError:
            return False

    def holding(self):
        return self.lock.owned()

    def ttl(self):
        return self.client.pttl(self.lock.name) if self.lock.owned() else None


class RedisPyAsyncio(RedisPy):
    """The same calls, each run to its end in one loop."""

    def __init__(self, url):
        import redis.asyncio

        self.loop = asyncio.new_event_loop()
        self.client = redis.asyncio.Redis.from_url(url)
        self.wait(self.client.ping())

    def wait(self, call):
        return self.loop.run_until_complete(call)

    def acquire(self, name, ttl_ms, wait_ms):
        self.lock = self.client.lock(
            name, timeout=ttl_ms / 1000, blocking=wait_ms > 0, blocking_timeout=wait_ms / 1000 or None
        )
        return self.lock.local.token if self.wait(self.lock.acquire()) else None

    def release(self):
        try:
            self.wait(self.lock.release())
        except redis.exceptions.LockError:
            return False
        return True

    def extend(self, ttl_ms):
        try:
            return self.wait(self.lock.extend(ttl_ms / 1000, replace_ttl=True))
        except redis.exceptions.LockError:
            return False

    def holding(self):
        return self.wait(self.lock.owned())

    def ttl(self):
        return self.wait(self.client.pttl(self.lock.name)) if self.holding() else None


class PythonRedisLock:
    package = "python-redis-lock"

    def __init__(self, url):
        import redis_lock

        self.library = redis_lock
        self.client = redis.Redis.from_url(url)
        self.client.ping()

    def acquire(self, name, ttl_ms, wait_ms):
        self.lock = self.library.Lock(self.client, name, expire=math.ceil(ttl_ms / 1000))
        wait = {"timeout": math.ceil(wait_ms / 1000)} if wait_ms else {"blocking": False}
        return self.lock.id.encode() if self.lock.acquire(**wait) else None

    def release(self):
        try:
            self.lock.release()
        except self.library.NotAcquired:
            return False
        return True

    def extend(self, ttl_ms):
        try:
            self.lock.extend(math.ceil(ttl_ms / 1000))
        except (self.library.NotAcquired, self.library.NotExpirable):
            return False
        return True

    def holding(self):
        owner = self.lock.get_owner_id()
        return owner == self.lock.id

    def ttl(self):
        raise Unsupported


class Pottery:
    package = "pottery"

    def __init__(self, url):
        import pottery

        self.library = pottery
        self.client = redis.Redis.from_url(url)
        self.client.ping()

    def acquire(self, name, ttl_ms, wait_ms):
        self.lock = self.library.Redlock(
            key=name, masters={self.client}, auto_release_time=ttl_ms / 1000
        )
        wait = {"timeout": wait_ms / 1000} if wait_ms else {"blocking": False}
        return b"" if self.lock.acquire(**wait) else None

    def release(self):
        try:
            self.lock.release()
        except self.library.ReleaseUnlockedLock:
            return False
        return True

    def extend(self, ttl_ms):
        if ttl_ms != round(self.lock.auto_release_time * 1000):
            raise Unsupported
        try:
            self.lock.extend()
        except self.library.ExtendUnlockedLock:
            return False
        return True

    def holding(self):
        return self.lock.locked() > 0

    def ttl(self):
        # What it tells is the validity, so less than the server's by the drift.
        raise Unsupported


KINDS = {
    "redis-py": RedisPy,
    "redis-py-asyncio": RedisPyAsyncio,
    "python-redis-lock": PythonRedisLock,
    "pottery": Pottery,
}


def answer(peer, words):
    match words:
        case ["acquire", name, ttl_ms, wait_ms]:
            token = peer.acquire(name, int(ttl_ms), int(wait_ms))
            return "busy" if token is None else f"ok {token.hex() or '-'}"
        case ["release"]:
            return "ok" if peer.release() else "expired"
        case ["extend", ttl_ms]:
            return "ok" if peer.extend(int(ttl_ms)) else "expired"
        case ["holding"]:
            return "ok" if peer.holding() else "expired"
        case ["ttl"]:
            left_ms = peer.ttl()
            return "expired" if left_ms is None else f"ok {left_ms}"
        case _:
            return "error unknown command"


def main():
    url, kind, *_ = sys.argv[1:]
    peer = KINDS[kind](url)
    print("ready", peer.package, importlib.metadata.version(peer.package), flush=True)
    for line in sys.stdin:
        if line.strip() == "quit":
            return
        try:
            text = answer(peer, line.split())
        except Unsupported:
            text = "error unsupported"
        except Exception as error:  # Whatever it is, the one who drives is told.
            text = " ".join(f"error {type(error).__name__}: {error}".split())
        print(text, flush=True)


main()
