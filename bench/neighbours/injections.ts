/** Honest reviews of Pods, one a second, as an API server sends them. */
import { Agent } from 'node:https';
import { setTimeout as delay } from 'node:timers/promises';
import { call, podReview } from '../../src/webhooks/testing/webhook-client.ts';
import { monotonicMs } from '../world/clock.ts';

const EACH_MS = 1000;

const POD = {
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { generateName: 'web-7d4b9-', labels: { app: 'web', version: 'v1' } },
  spec: {
    serviceAccountName: 'web',
    containers: [{ name: 'web', image: 'example.com/web:1', ports: [{ containerPort: 8080 }] }],
  },
};

export interface Injections {
  /** Milliseconds from the time at which a review was due until its answer. */
  readonly latencies: readonly number[];
  /** Answers other than an injection, and connections without an answer. */
  readonly refused: number;
}

/** Asks so often and waits for all answers, however long they take. */
export async function injections(port: number, count: number): Promise<Injections> {
  const agent = new Agent({ keepAlive: true });
  const body = podReview(POD);
  const latencies: number[] = [];
  let refused = 0;
  const ask = async (due: number): Promise<void> => {
    const answer = await call(port, '/inject', { body, agent }).catch(() => undefined);
    if (answer?.status === 200 && answer.text.includes('"patch"')) latencies.push(monotonicMs() - due);
    else refused++;
  };
  const open: Promise<void>[] = [];
  const started = monotonicMs();
  for (let number = 0; number < count; number++) {
    const due = started + number * EACH_MS;
    await delay(Math.max(0, due - monotonicMs()));
    open.push(ask(due));
  }
  await Promise.all(open);
  agent.destroy();
  return { latencies, refused };
}
