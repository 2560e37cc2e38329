/** The resource versions that a proxy of a view has accepted lately: these are not tried again. */

/** Most versions that are remembered of a view: a change and its reversal, of hundreds of resources. */
const MAX_REMEMBERED = 512;

export class AcceptedVersions {
  readonly #known = new Set<string>();

  has(item: string, version: string): boolean {
    return this.#known.has(`${item}\n${version}`);
  }

  add(item: string, version: string): void {
    const key = `${item}\n${version}`;
    this.#known.delete(key);
    this.#known.add(key);
    const [oldest] = this.#known;
    if (oldest !== undefined && this.#known.size > MAX_REMEMBERED) this.#known.delete(oldest);
  }
}
