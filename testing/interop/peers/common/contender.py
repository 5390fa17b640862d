"""What a Python driver of the contended benchmark shares: arguments, start and end, the record.

The protocol is described in bench/src/contended/contender.rs; contenders are threads.
"""

import sys
import threading
import time

now = time.monotonic_ns  # CLOCK_MONOTONIC


class Arguments:
    def __init__(self):
        url, name, contenders, section_us, ttl_ms, setting, first_owner = sys.argv[1:]
        self.url = url
        self.name = name
        self.contenders = int(contenders)
        self.section = int(section_us) / 1e6
        self.ttl = int(ttl_ms) / 1e3
        self.setting = setting
        self.first_owner = int(first_owner)


def contend(arguments, new_lock):
    """Runs a thread for each contender and tells what they saw.

    new_lock() gives (acquire, release) for one contender; acquire says whether it got the lock.
    """
    pairs = [new_lock() for _ in range(arguments.contenders)]
    print("ready", flush=True)
    start, end = (int(word) for word in sys.stdin.readline().split())
    lines = [[] for _ in pairs]
    failed = [0 for _ in pairs]

    def run(index):
        acquire, release = pairs[index]
        owner = arguments.first_owner + index
        write = lines[index].append
        time.sleep(max(0, start - now()) / 1e9)
        while True:
            called = now()
            if called >= end:
                return
            while not acquire():
                failed[index] += 1
            acquired = now()
            if arguments.section:
                time.sleep(arguments.section)
            releasing = now()
            release()
            write((owner, called, acquired, releasing, now()))

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(pairs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for grants in lines:
        for grant in grants:
            print("grant %d %d %d %d %d" % grant)
    print("failed", sum(failed))
