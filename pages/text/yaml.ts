/** YAML for people to read and copy. */

/** Texts that YAML reads as themselves, without quotes. */
const PLAIN = /^[A-Za-z_/][\w ./()~*@-]*$/;
const RESERVED = /^(?:true|false|null|yes|no|on|off|y|n|~|\.inf|\.nan)$/i;

function scalar(value: unknown): string {
  if (typeof value !== 'string') return JSON.stringify(value) ?? 'null';
  return PLAIN.test(value) && !RESERVED.test(value) && value.trim() === value ? value : JSON.stringify(value);
}

function isEmpty(value: object): boolean {
  return Object.keys(value).length === 0;
}

/** The lines of a value; those of lists and objects are indented. */
function lines(value: unknown, indent: string): string[] {
  if (Array.isArray(value)) {
    return value.flatMap((item) => {
      const [first = '', ...rest] = inner(item, `${indent}  `);
      return [`${indent}- ${first.trimStart()}`, ...rest];
    });
  }
  return Object.entries(value as object).flatMap(([key, item]) => {
    if (item === undefined) return [];
    const name = `${indent}${scalar(key)}:`;
    if (typeof item !== 'object' || item === null || isEmpty(item)) return [`${name} ${inner(item, '').join('')}`];
    return [name, ...lines(item, Array.isArray(item) ? indent : `${indent}  `)];
  });
}

function inner(value: unknown, indent: string): string[] {
  if (typeof value !== 'object' || value === null) return [scalar(value)];
  if (isEmpty(value)) return [Array.isArray(value) ? '[]' : '{}'];
  return lines(value, indent);
}

export function yaml(value: unknown): string {
  return `${inner(value, '').join('\n')}\n`;
}
