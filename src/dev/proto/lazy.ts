/**
 * Makes the generated module cheap to load: a message's or enum's code runs when it is first asked for. Of the hundreds
 * that are compiled a thread needs a few dozen, and each of its threads loads the module; without this the loading
 * makes thousands of functions and prototypes that are never used.
 *
 * Code of one message refers to others by their path from the root, several properties deep. Such a path is walked
 * once.
 */

/**
 * A message or an enum as the generator writes it; packages are written the same way, but begin with an empty object.
 */
const DEFINITION = /^( +)(\w+)\.(\w+) = \(function\(\) \{$/;
const REFERENCE = /\$root((?:\.\w+)+)\.(encode|decode)\(/g;
const CREATION = /new \$root((?:\.\w+)+)\(/g;

/** Defines a property that makes its value when it is first read. Code of the generated module. */
const HELPER = `
function $lazy(owner, name, make) {
    const define = (property) => Object.defineProperty(owner, name, { configurable: true, enumerable: true, ...property });
    define({ get: () => { const value = make(); define({ value, writable: true }); return value; } });
}
`;

/** @throws when the text is not as the generator writes it */
export function lazyModule(text: string): string {
  const paths = new Map<string, string>();
  const short = (path: string): string => {
    const name = paths.get(path) ?? `$${paths.size}`;
    paths.set(path, name);
    return `${name}_()`;
  };
  const lines = lazyDefinitions(text.split('\n'));
  const body = lines
    .join('\n')
    .replace(REFERENCE, (_, path: string, method: string) => `${short(path)}.${method}(`)
    .replace(CREATION, (_, path: string) => `new (${short(path)})(`);
  const found = [...paths].map(
    ([path, name]) => `let ${name}; function ${name}_() { return ${name} ??= $root${path}; }`,
  );
  return `${body}${HELPER}${found.join('\n')}\n`;
}

function lazyDefinitions(lines: readonly string[]): string[] {
  const open: string[] = [];
  let lazy = 0;
  const rewritten = lines.map((line, index) => {
    const [, indent, owner, name] = DEFINITION.exec(line) ?? [];
    if (indent !== undefined && !isPackage(lines, index)) {
      open.push(indent);
      lazy++;
      return `${indent}$lazy(${owner}, "${name}", function() {`;
    }
    const last = open.at(-1);
    if (last === undefined || line !== `${last}})();`) return line;
    open.pop();
    return `${last}});`;
  });
  if (lazy === 0 || open.length > 0) throw new Error('the generated module is not written as expected');
  return rewritten;
}

function isPackage(lines: readonly string[], index: number): boolean {
  return lines.slice(index + 1, index + 3).some((line) => / = \{\};$/.test(line));
}
