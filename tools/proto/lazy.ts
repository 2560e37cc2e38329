/**
 * Makes the generated module cheap to load: the code of a message or enum runs at its first use. Every thread loads the
 * module with hundreds of messages and needs a few dozen. Otherwise loading would create thousands of unused functions.
 *
 * The code of a message refers to others by their path from the root, which has several properties. Such a path is
 * resolved once.
 */

/**
 * A message or an enum as the generator writes it. Packages have the same form, but begin with an empty object.
 */
const DEFINITION = /^( +)(\w+)\.(\w+) = \(function\(\) \{$/;
const REFERENCE = /\$root((?:\.\w+)+)\.(encode|decode)\(/g;
const CREATION = /new \$root((?:\.\w+)+)\(/g;

/** Defines a property that computes its value at the first read. Part of the generated module. */
const HELPER = `
function $lazy(owner, name, make) {
    const shared = { configurable: true, enumerable: true };
    const define = (property) => Object.defineProperty(owner, name, { ...shared, ...property });
    define({ get: () => { const value = make(); define({ value, writable: true }); return value; } });
}
`;

/** @throws when the text does not have the form of the generator */
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
  if (lazy === 0 || open.length > 0) throw new Error('the generated module does not have the expected form');
  return rewritten;
}

function isPackage(lines: readonly string[], index: number): boolean {
  return lines.slice(index + 1, index + 3).some((line) => / = \{\};$/.test(line));
}
