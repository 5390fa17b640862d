"""Contenders for the lock of redis-py: a thread each, one client for all."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "common"))

import redis
from contender import Arguments, contend

arguments = Arguments()
client = redis.Redis.from_url(arguments.url)
client.ping()
options = {"sleep": 0.001} if arguments.setting == "fast" else {}


def new_lock():
    lock = client.lock(arguments.name, timeout=arguments.ttl, **options)
    return lock.acquire, lock.release


contend(arguments, new_lock)
