/** Label selection, used by all selectors of the mesh. */

export type Labels = Readonly<Record<string, string>>;

/** Whether `labels` contain all of `selector`; an empty selector selects everything. */
export function labelsMatch(selector: Labels, labels: Labels): boolean {
  for (const key in selector) if (labels[key] !== selector[key]) return false;
  return true;
}

export function isEmptySelector(selector: Labels | undefined): boolean {
  return selector === undefined || Object.keys(selector).length === 0;
}
