/** Every annotation and option of injection by a readable Pod and what comes of it (`testing/golden-cases.ts`). */
import assert from 'node:assert/strict';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { test } from 'node:test';
import { ANNOTATIONS, readAnnotations } from './annotations/annotations.ts';
import { createInjector } from './index.ts';
import { GOLDEN_NAMESPACE, goldenCases, goldenResultFile, injectGolden, resultText } from './testing/golden-cases.ts';
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

test('every annotation and label of the table occurs in a golden file', () => {
  const seen = new Set(CASES.flatMap(({ pod }) => Object.keys(readAnnotations(pod.metadata).options)));
  assert.deepEqual(
    Object.keys(ANNOTATIONS).filter((option) => !seen.has(option)),
    [],
  );
});
