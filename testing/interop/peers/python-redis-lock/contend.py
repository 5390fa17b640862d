"""Contenders for the lock of python-redis-lock: a thread each, one client for all."""

import math
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "common"))

import redis
import redis_lock
from contender import Arguments, contend

arguments = Arguments()
client = redis.Redis.from_url(arguments.url)
client.ping()


def new_lock():
    lock = redis_lock.Lock(client, arguments.name, expire=math.ceil(arguments.ttl))
    return lock.acquire, lock.release


contend(arguments, new_lock)
