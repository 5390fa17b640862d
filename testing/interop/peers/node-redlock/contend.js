// Contenders for the lock of node-redlock 5, asynchronous loops that share one client.
// The protocol is described in bench/src/contended/contender.rs.
"use strict";

const readline = require("node:readline");
const { setTimeout: sleep } = require("node:timers/promises");
const Redis = require("ioredis");
const { default: Redlock } = require("redlock");

const [url, name, contenders, sectionUs, ttlMs, setting, firstOwner] = process.argv.slice(2);
const now = () => process.hrtime.bigint(); // CLOCK_MONOTONIC

async function contend(locks, owner, start, end, grants) {
  let failed = 0;
  await sleep(Math.max(0, Number(start - now()) / 1e6));
  for (;;) {
    const called = now();
    if (called >= end) return failed;
    let lock;
    while (!lock) {
      try {
        lock = await locks.acquire([name], Number(ttlMs));
      } catch {
        failed += 1;
      }
    }
    const acquired = now();
    if (Number(sectionUs) > 0) await sleep(Number(sectionUs) / 1000);
    const releasing = now();
    await lock.release().catch(() => (failed += 1));
    grants.push(`grant ${owner} ${called} ${acquired} ${releasing} ${now()}`);
  }
}

async function main() {
  const client = new Redis(url);
  await client.ping();
  const settings = setting === "fast" ? { retryDelay: 1, retryJitter: 1, retryCount: -1 } : {};
  const locks = new Redlock([client], settings);
  locks.on("error", () => {}); // What fails is counted where it is called.
  const input = readline.createInterface({ input: process.stdin });
  const told = new Promise((resolve) => input.once("line", resolve));
  console.log("ready");
  const [start, end] = (await told).split(" ").map(BigInt);
  input.close();
  const grants = [];
  const loops = Array.from({ length: Number(contenders) }, (_, index) =>
    contend(locks, Number(firstOwner) + index, start, end, grants),
  );
  const failed = (await Promise.all(loops)).reduce((sum, one) => sum + one, 0);
  process.stdout.write(`${grants.join("\n")}\nfailed ${failed}\n`);
  client.disconnect();
}

main();
