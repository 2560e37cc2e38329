/** Every annotation and option of injection by a readable Pod and what comes of it (`testing/golden-cases.ts`). */
import assert from 'node:assert/strict';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { test } from 'node:test';
import { meshKey } from '../../resources/index.ts';
import type { PodObject } from '../types.ts';
import { ANNOTATIONS, readAnnotations } from './annotations/annotations.ts';
import { createInjector, recordOf } from './index.ts';
import {
  GOLDEN_NAMESPACE,
  type GoldenCase,
  goldenCases,
  goldenResultFile,
  injectGolden,
  resultText,
} from './testing/golden-cases.ts';
import { SETTINGS } from './testing/settings.ts';

const CASES = goldenCases();

for (const each of CASES) {
  const result = injectGolden(each);

  test(`injection of the Pod ${each.name} gives its golden file`, () => {
    const file = goldenResultFile(each.name);
    const text = resultText(result);
    if (process.env.UPDATE_GOLDEN === '1') writeFileSync(file, text);
    assert.ok(existsSync(file), `no ${file}: UPDATE_GOLDEN=1 npm test -- unit injection/golden`);
    assert.equal(
      text,
      readFileSync(file, 'utf8'),
      'read the difference, then: UPDATE_GOLDEN=1 npm test -- unit injection/golden',
    );
  });

  test(`injection of the Pod ${each.name} again changes nothing`, () => {
    if (result.kind === 'skipped') return;
    const again = createInjector({ ...SETTINGS, ...each.settings }).inject(
      result.pod,
      GOLDEN_NAMESPACE,
      each.parameters,
    );
    assert.ok(again.kind === 'injected');
    assert.deepEqual(again.pod, result.pod);
  });
}

/** By it the API server chooses the webhook, and injection adds it where it is absent. */
const OF_THE_API_SERVER: readonly string[] = [ANNOTATIONS.revision.name];

test('every annotation and label of the table decides something in a golden file', () => {
  const seen = CASES.map((each) => ({ each, options: readAnnotations(each.pod.metadata).options }));
  const silent = Object.entries(ANNOTATIONS).filter(
    ([option, { name }]) => !seen.some(({ each, options }) => Object.hasOwn(options, option) && decides(each, name)),
  );
  assert.deepEqual(
    silent.map(([, { name }]) => name),
    OF_THE_API_SERVER,
  );
});

/** Whether a Pod without the annotation or label is injected differently, beyond the annotation or label itself. */
function decides(each: GoldenCase, name: string): boolean {
  const rest = { ...each, pod: without(each.pod, name) };
  return injectedText(each, name) !== injectedText(rest, name);
}

function injectedText(each: GoldenCase, name: string): string {
  const result = injectGolden(each);
  return result.kind === 'skipped' ? resultText(result) : resultText({ ...result, pod: without(result.pod, name) });
}

/** A Pod without the annotations and labels that mean this name of the mesh. */
function without(pod: PodObject, name: string): PodObject {
  const metadata: Record<string, unknown> = { ...recordOf(pod.metadata) };
  for (const field of ['annotations', 'labels']) {
    const kept = Object.entries(recordOf(metadata[field])).filter(([key]) => meshKey(key) !== name);
    if (metadata[field] !== undefined) metadata[field] = Object.fromEntries(kept);
  }
  return { ...pod, metadata };
}
