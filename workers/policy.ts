/** The entry point of the policy thread: decides about requests, so that this never delays a push. */
import { lookup } from 'node:dns/promises';
import { readFile } from 'node:fs/promises';
import { type MessagePort, parentPort, workerData } from 'node:worker_threads';
import { httpText } from '../src/core/network/http-call.ts';
import { compilePolicySteps, PolicyThread, type PolicyThreadData, type ToPolicyThread } from '../src/policy/index.ts';
import { guardedAddress, guardedFetch } from '../src/security/index.ts';

function repeated(ms: number, run: () => void): () => void {
  const timer = setInterval(run, ms);
  return () => clearInterval(timer);
}

function delayed(ms: number, run: () => void): () => void {
  const timer = setTimeout(run, ms);
  return () => clearTimeout(timer);
}

function start(port: MessagePort): void {
  const thread = new PolicyThread({
    // Given by `thread-owner.ts`.
    data: workerData as PolicyThreadData,
    host: {
      now: () => Date.now(),
      monotonic: () => performance.now(),
      random: Math.random,
      every: repeated,
      later: delayed,
      fetch: guardedFetch(),
      call: httpText,
      resolve: (host) => guardedAddress(host, (name) => lookup(name, { all: true })),
      readFile: (path) => readFile(path),
    },
    compile: compilePolicySteps,
    post: (message) => port.postMessage(message),
    nextTurn: (run) => setImmediate(run),
  });
  port.on('message', (message: ToPolicyThread) => thread.take(message));
}

// The build loads this module on the main thread, to compile it ahead.
if (parentPort !== null) start(parentPort);
