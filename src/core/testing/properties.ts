/**
 * fast-check, with the seed and the number of runs that the environment chooses. Property tests import it from here.
 *
 * PROPERTY_SEED is a 32-bit integer, or `random`. The default is fixed, so that a run of the tests is repeatable:
 * `npm test -- properties` looks for what other seeds find. PROPERTY_RUNS is a factor for the runs of every property.
 * PROPERTY_PATH is the path that fast-check reports with a failure, for one property with the seed of that failure: it
 * goes straight to the smallest counterexample.
 */
import * as fastCheck from 'fast-check';

// What is declared below comes before what is exported here.
export * from 'fast-check';

const DEFAULT_SEED = 1;
/** The default of fast-check. */
const DEFAULT_RUNS = 100;

function seedOf(text: string | undefined): number | undefined {
  if (text === 'random') return undefined;
  const seed = text === undefined ? DEFAULT_SEED : Number(text);
  if (text === '' || !Number.isInteger(seed)) throw new Error(`PROPERTY_SEED must be an integer or random: "${text}"`);
  return seed;
}

function factorOf(text: string | undefined): number {
  const factor = text === undefined ? 1 : Number(text);
  if (!(factor > 0 && factor < Number.POSITIVE_INFINITY))
    throw new Error(`PROPERTY_RUNS must be a factor above 0: "${text}"`);
  return factor;
}

const { PROPERTY_SEED, PROPERTY_RUNS, PROPERTY_PATH } = process.env;
const SEED = seedOf(PROPERTY_SEED);
const FACTOR = factorOf(PROPERTY_RUNS);

// For samples, too.
if (SEED !== undefined) fastCheck.configureGlobal({ seed: SEED });

/** A number of runs, or a time limit that suits them, multiplied by PROPERTY_RUNS. */
export function scaled(count: number): number {
  return Math.ceil(count * FACTOR);
}

function parameters<Ts>(given: fastCheck.Parameters<Ts> | undefined): fastCheck.Parameters<Ts> {
  const path = PROPERTY_PATH === undefined ? {} : { path: PROPERTY_PATH };
  return { ...given, numRuns: scaled(given?.numRuns ?? DEFAULT_RUNS), ...path };
}

/** As that of fast-check; `numRuns` is multiplied by PROPERTY_RUNS. */
export function assert<Ts>(property: fastCheck.IAsyncProperty<Ts>, given?: fastCheck.Parameters<Ts>): Promise<void>;
export function assert<Ts>(property: fastCheck.IProperty<Ts>, given?: fastCheck.Parameters<Ts>): void;
export function assert<Ts>(property: fastCheck.IRawProperty<Ts>, given?: fastCheck.Parameters<Ts>): unknown {
  return fastCheck.assert(property, parameters(given));
}
