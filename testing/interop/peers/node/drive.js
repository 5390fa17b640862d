// Drives the locks of node-redlock 4 and 5, sesamecare's and redlock-universal, and the mutex of
// redis-semaphore. The protocol is described in ../PROTOCOL.md; the kind says which library it is.
"use strict";

const readline = require("node:readline");
const Redis = require("ioredis");

class Unsupported extends Error {}

// The limit as a number of retries, for those that know no other: `each` is their mean delay.
const retries = (waitMs, each) => Math.ceil(waitMs / each);

// The value that is stored, where the library tells none but compares.
const ours = async (client, name, value) => (await client.get(name)) === value;

// node-redlock 4, 5 and sesamecare have the same verbs under different names.
class Redlocks {
  constructor(client, make, acquire, release, value) {
    Object.assign(this, { client, make, take: acquire, give: release, value });
  }

  async acquire(name, ttlMs, waitMs) {
    // 4 takes a 0 of a call for its default, so each has settings of its own.
    const locks = this.make({ retryCount: retries(waitMs, 200) });
    locks.on("error", () => {}); // In 4 and 5 also busy answers; what fails is thrown, too.
    let lock;
    try {
      lock = await this.take(locks, name, ttlMs);
    } catch (error) {
      if (/LockError|ExecutionError|ResourceLockedError/.test(error.name)) return null;
      throw error;
    }
    this.name = name;
    this.lock = lock;
    return this.value(this.lock);
  }

  // To release what is not ours any more is an error for them, after retries; is it ours?
  async release() {
    const held = await this.holding();
    try {
      await this.give(this.lock);
    } catch (error) {
      if (held) throw error;
    }
    return held;
  }

  async extend(ttlMs) {
    if (!(await this.holding())) return false;
    this.lock = await this.lock.extend(ttlMs);
    return true;
  }

  holding() {
    return ours(this.client, this.name, this.value(this.lock));
  }

  ttl() {
    throw new Unsupported();
  }
}

class Universal {
  constructor(client) {
    const { IoredisAdapter, createLock } = require("redlock-universal");
    this.make = (key, ttl, waitMs) =>
      createLock({
        adapter: new IoredisAdapter(client),
        key,
        ttl,
        retryDelay: 100,
        retryAttempts: retries(waitMs, 100),
      });
  }

  async acquire(name, ttlMs, waitMs) {
    const lock = this.make(name, ttlMs, waitMs);
    let handle;
    try {
      handle = await lock.acquire();
    } catch (error) {
      if (error.name === "LockAcquisitionError") return null;
      throw error;
    }
    Object.assign(this, { lock, handle });
    return handle.value;
  }

  release() {
    return this.lock.release(this.handle);
  }

  extend(ttlMs) {
    return this.lock.extend(this.handle, ttlMs);
  }

  async holding() {
    throw new Unsupported("it tells only whether anybody holds it");
  }

  ttl() {
    throw new Unsupported();
  }
}

class SemaphoreMutex {
  constructor(client) {
    const { Mutex } = require("redis-semaphore");
    this.client = client;
    this.make = (name, ttlMs, limit) =>
      new Mutex(client, name, { lockTimeout: ttlMs, refreshInterval: 0, ...limit });
  }

  async acquire(name, ttlMs, waitMs) {
    const limit = waitMs ? { acquireTimeout: waitMs } : { acquireAttemptsLimit: 1 };
    const lock = this.make(name, ttlMs, limit);
    if (!(await lock.tryAcquire())) return null;
    Object.assign(this, { lock, key: `mutex:${name}` });
    return lock.identifier;
  }

  // Its own release tells nothing, so the server is asked before.
  async release() {
    const held = await this.holding();
    await this.lock.release();
    return held;
  }

  extend() {
    throw new Unsupported();
  }

  holding() {
    return ours(this.client, this.key, this.lock.identifier);
  }

  ttl() {
    throw new Unsupported();
  }
}

const KINDS = {
  redlock4: ["redlock4", (client) => {
    const Redlock = require("redlock4");
    return new Redlocks(client, (settings) => new Redlock([client], settings),
      (locks, name, ttlMs) => locks.lock(name, ttlMs), (lock) => lock.unlock(), (lock) => lock.value);
  }],
  redlock5: ["redlock5", (client) => {
    const { default: Redlock } = require("redlock5");
    return new Redlocks(client, (settings) => new Redlock([client], settings),
      (locks, name, ttlMs) => locks.acquire([name], ttlMs), (lock) => lock.release(), (lock) => lock.value);
  }],
  sesamecare: ["@sesamecare-oss/redlock", (client) => {
    const { Redlock } = require("@sesamecare-oss/redlock");
    return new Redlocks(client, (settings) => new Redlock([client], settings),
      (locks, name, ttlMs) => locks.acquire([name], ttlMs), (lock) => lock.release(), (lock) => lock.value);
  }],
  "redlock-universal": ["redlock-universal", (client) => new Universal(client)],
  "redis-semaphore": ["redis-semaphore", (client) => new SemaphoreMutex(client)],
};

async function answer(peer, [verb, ...words]) {
  const said = (yes) => (yes ? "ok" : "expired");
  if (verb === "acquire") {
    const value = await peer.acquire(words[0], Number(words[1]), Number(words[2]));
    return value === null ? "busy" : `ok ${Buffer.from(value).toString("hex")}`;
  }
  if (verb === "release") return said(await peer.release());
  if (verb === "extend") return said(await peer.extend(Number(words[0])));
  if (verb === "holding") return said(await peer.holding());
  if (verb === "ttl") return `ok ${await peer.ttl()}`;
  return "error unknown command";
}

async function main() {
  const [url, kind] = process.argv.slice(2);
  const [folder, make] = KINDS[kind];
  const client = new Redis(url);
  await client.ping();
  const peer = make(client);
  // Its own file, not `require`: what a package exports seldom has it.
  const { name, version } = JSON.parse(
    require("node:fs").readFileSync(`${__dirname}/node_modules/${folder}/package.json`, "utf8"),
  );
  console.log(`ready ${name} ${version}`);
  for await (const line of readline.createInterface({ input: process.stdin })) {
    if (line.trim() === "quit") break;
    let text;
    try {
      text = await answer(peer, line.trim().split(" "));
    } catch (error) {
      const what = error instanceof Unsupported ? `unsupported ${error.message}` : String(error);
      text = `error ${what.replace(/\s+/g, " ")}`.trim();
    }
    console.log(text);
  }
  process.exit(0);
}

main();
