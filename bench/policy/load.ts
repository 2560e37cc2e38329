/** Envoys that ask for decisions, in a process of their own: as many as are made, or a fixed number a second. */

import { envoy } from '../../src/protobuf/index.ts';
import { answerCommands } from '../client/asked.ts';
import { sendAtRate } from '../client/pace.ts';
import { quantiles } from '../results.ts';
import { CallConnection } from './call-connection.ts';
import type { LoadCommand, LoadResult } from './messages.ts';
import { requests } from './requests.ts';

const { CheckResponse } = envoy.service.auth.v3;

const RATE_STEP_MS = 1;
/** The maximum number of checks sent at once. */
const MAX_BURST = 50;
/** Checks that have no decision by then are wrong, ms. */
const PATIENCE_MS = 5_000;
const PREFIX = 5;
const ASKED = requests();

/** Asks once; calls `done` with whether the decision is the one that the rules define. */
function ask(connection: CallConnection, index: number, done: (isRight: boolean) => void): void {
  const { body, code } = ASKED[index % ASKED.length] ?? { body: Buffer.alloc(0), code: -1 };
  connection.call(body, (answer) => done(answer.length >= PREFIX && codeOf(answer) === code));
}

function codeOf(answer: Buffer): number | undefined {
  return CheckResponse.decode(answer.subarray(PREFIX)).status?.code;
}

async function run(command: LoadCommand): Promise<LoadResult> {
  const { seconds, rate, inFlight, connections } = command;
  const opened = Array.from({ length: connections }, () => new CallConnection(command));
  await Promise.all(opened.map((each) => each.ready));
  const times: number[] = [];
  let [sent, waiting, wrong, open] = [0, 0, 0, true];
  const started = performance.now();
  const ends = started + seconds * 1000;
  const send = (): void => {
    const index = sent++;
    const connection = opened[index % opened.length];
    if (connection === undefined) return;
    const at = performance.now();
    waiting++;
    ask(connection, index, (isRight) => {
      waiting--;
      if (isRight) times.push(performance.now() - at);
      else wrong++;
      if (open && rate === undefined) send();
    });
  };
  if (rate === undefined) {
    for (let count = 0; count < inFlight; count++) send();
    await new Promise((resolve) => setTimeout(resolve, ends - performance.now()));
  } else await sendAtRate({ rate, until: ends, maxBurst: MAX_BURST }, send);
  // In a short run on a crowded machine there may be none yet.
  while (times.length + wrong === 0 && performance.now() - started < PATIENCE_MS)
    await new Promise((resolve) => setTimeout(resolve, RATE_STEP_MS));
  open = false;
  const decided = times.length;
  const lasted = (performance.now() - started) / 1000;
  for (const since = performance.now(); waiting > 0 && performance.now() - since < PATIENCE_MS; )
    await new Promise((resolve) => setTimeout(resolve, RATE_STEP_MS));
  wrong += waiting;
  for (const each of opened) each.close();
  const { p50, p99, max } = quantiles(times);
  return { perSecond: decided / lasted, wrong, p50, p99, max };
}

answerCommands(run);
