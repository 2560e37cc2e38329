/** Examples of the documents, as a reader copies them, with the ports and folders of a test in place of the written ones. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { blocksOf, readDocument } from '../../../tools/docs/markdown.ts';

export const ROOT = join(import.meta.dirname, '../../..');

/**
 * The text of an example without its title.
 * @param replacements what the document says → what it is in this test; each has to occur in the example
 */
export function example(document: string, title: string, replacements: Readonly<Record<string, string>> = {}): string {
  const found = blocksOf(readDocument(document)).find((block) => block.title === title);
  const { text } = found ?? assert.fail(`${document} has no example "# ${title}"`);
  return Object.entries(replacements).reduce((result, [from, to]) => {
    assert.ok(result.includes(from), `${document}, example "${title}": no ${from} to replace`);
    return result.replaceAll(from, to);
  }, text);
}
