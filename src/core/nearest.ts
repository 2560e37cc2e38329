/** "Did you mean": finds the name that a misspelled one resembles most. */

/** Single-character edits (insert, delete, replace, swap of neighbours) between two words. */
function distance(a: string, b: string): number {
  let [before, last]: [number[], number[]] = [[], Array.from({ length: b.length + 1 }, (_, index) => index)];
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1] ? 0 : 1;
      let least = Math.min((row[j - 1] ?? 0) + 1, (last[j] ?? 0) + 1, (last[j - 1] ?? 0) + same);
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        least = Math.min(least, (before[j - 2] ?? 0) + 1);
      row.push(least);
    }
    [before, last] = [last, row];
  }
  return last[b.length] ?? 0;
}

/** Longer words are not compared: they are not misspellings, and comparing them would take long. */
const MAX_LENGTH = 64;

/**
 * The candidate that is most similar to the word, regardless of case; undefined when none is similar: at most one edit
 * in three letters.
 */
export function nearest(word: string, candidates: Iterable<string>): string | undefined {
  if (word.length > MAX_LENGTH) return undefined;
  let [best, least]: [string | undefined, number] = [undefined, Math.max(1, Math.floor(word.length / 3)) + 1];
  for (const candidate of candidates) {
    const edits = distance(word.toLowerCase(), candidate.toLowerCase());
    if (edits < least) [best, least] = [candidate, edits];
  }
  return best;
}

/** `, did you mean X?`, or nothing. */
export function didYouMean(word: string, candidates: Iterable<string>, shown = (name: string) => name): string {
  const found = nearest(word, candidates);
  return found === undefined ? '' : `, did you mean ${shown(found)}?`;
}
