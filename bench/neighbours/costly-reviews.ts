/** Reviews of 280 kB that take seconds each, from addresses that are no API server's, beside honest injections. */
import { setTimeout as delay } from 'node:timers/promises';
import { call, documentReview } from '../../src/webhooks/testing/webhook-client.ts';
import { HOSTILE, type Scenario, sized, type Target } from './scenario.ts';

/** With each of 35 bytes, 280 kB. */
const EXPRESSIONS = 8000;
/** Little beside the time that a review takes. */
const PAUSE_MS = 100;

function body(load: number): string {
  const match = Array.from({ length: sized(EXPRESSIONS, load) }, () => ({ uri: { regex: '(a|b)*c{1,900}' } }));
  const spec = { hosts: ['web'], http: [{ match, route: [{ destination: { host: 'web' } }] }] };
  const metadata = { name: 'web', namespace: HOSTILE };
  return documentReview(
    { apiVersion: 'networking.mesh.io/v1alpha3', kind: 'VirtualService', metadata, spec },
    { namespace: HOSTILE },
  );
}

async function ask({ httpsPort }: Target, text: string, localAddress: string): Promise<void> {
  for (;;) {
    // A refused or ended connection is an answer, too.
    await call(httpsPort, '/validate', { body: text, localAddress }).catch(() => undefined);
    await delay(PAUSE_MS);
  }
}

function scenario(reviews: number, addresses: number): Scenario {
  const from = addresses === 1 ? 'one address' : `${addresses} addresses`;
  return {
    name: `${reviews} reviews, ${from}`,
    about: `${reviews} reviews of 280 kB at a time from ${from}`,
    measured: 'injection',
    callers: async (target) => {
      const text = body(target.load);
      for (let index = 0; index < reviews; index++) void ask(target, text, `127.2.0.${1 + (index % addresses)}`);
    },
  };
}

export const COSTLY_REVIEWS = [scenario(2, 1), scenario(6, 1), scenario(6, 3)];
