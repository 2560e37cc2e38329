import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CtlError } from '../../../core/errors.ts';
import type { TemplateData } from '../template-data/types.ts';
import { compileTemplate } from './template.ts';

const ORIGIN = { file: 'config.yaml', field: 'templates.t' };

function render(text: string, values: Readonly<Record<string, unknown>> = {}): unknown {
  // Only `values` is read.
  return compileTemplate('t', text, ORIGIN).render({ values } as TemplateData);
}

function refused(text: string, line: RegExp, values: Readonly<Record<string, unknown>> = {}): void {
  assert.throws(
    () => render(text, values),
    (error) => error instanceof CtlError && line.test(error.oneLine()) && !error.oneLine().includes('\n'),
    String(line),
  );
}

test('a plain output is the value itself, with its type', () => {
  const values = { list: [1, 'a'], fields: { b: { c: null } }, number: 7, yes: true, text: 'on' };
  assert.deepEqual(
    render(
      'a: {{ values.list }}\nb: {{ values.fields }}\nc: [{{ values.number }}, {{ values.yes }}, {{ values.text }}]',
      values,
    ),
    { a: [1, 'a'], b: { b: { c: null } }, c: [7, true, 'on'] },
  );
});

test('an output in a quoted or block scalar, or beside other text, is text', () => {
  const text = `
a: "{{ values.number }}"
b: '{{ values.number }}'
c: x{{ values.number }}-{{ values.fields }}
d: |
  {{ values.number }}
{{ values.text }}-key: 1
`;
  assert.deepEqual(render(text, { number: 7, fields: { b: 1 }, text: 'k' }), {
    a: '7',
    b: '7',
    c: 'x7-{"b":1}',
    d: '7\n',
    'k-key': 1,
  });
});

test('fields and entries without a value are left out', () => {
  assert.deepEqual(render('a: {{ values.nothing }}\nb: [1, {{ values.nothing }}]\nc: "{{ values.nothing }}"\nd:'), {
    b: [1],
    c: '',
  });
});

test('control flow and filters work on values', () => {
  const text = `
list:
{%- for entry in values.entries %}
{%- unless entry.hidden %}
- name: {{ entry.name | upcase | append: "!" }}
{%- endunless %}
{%- endfor %}
size: {{ values.entries.size }}
default: {{ values.nothing | default: "x" }}
{%- if values.entries.size > 5 %}
many: true
{%- elsif values.entries[0].name == "a" %}
first: a
{%- endif %}
`;
  const entries = [{ name: 'a' }, { name: 'b', hidden: true }, { name: 'c' }];
  assert.deepEqual(render(text, { entries }), {
    list: [{ name: 'A!' }, { name: 'C!' }],
    size: 3,
    default: 'x',
    first: 'a',
  });
});

test('strings that look like outputs, and prototypes, are not evaluated', () => {
  const template = compileTemplate(
    't',
    'a: {{ values.text }}\nb: [{{ values.constructor }}, {{ values.text.toString }}]',
    ORIGIN,
  );
  const first = template.render({ values: { text: '{{ values }}' } } as unknown as TemplateData);
  assert.deepEqual(first, { a: '{{ values }}', b: [] });
});

test('mistakes of templates name the template and the line', () => {
  refused('a: b\nc: {{ x | nope }}', /^config\.yaml: templates\.t: line 2: undefined filter: nope$/);
  refused('a: b\n{% if x %}', /^config\.yaml: templates\.t: line 2: tag \{% if x %\} not closed$/);
  refused('a: "b\n', /^template t: rendered line \d: expected YAML: Missing closing "quote$/);
  refused('- a', /^template t: expected fields of a Pod/);
  refused('{{ values.key }}: 1\nb: 2', /^template t: b: occurs twice$/, { key: 'b' });
  refused('a: { {{ values.key }}: 1 }', /is not a field name$/, { key: '__proto__' });
  refused('a: {{ 1 | divided_by: 0 }}', /^template t: a: expected a string, number, boolean, list or object$/);
});

test('tags and filters that write without an output, read files or evaluate strings do not exist', () => {
  for (const tag of ['include "x"', 'render "x"', 'layout "x"', 'cycle values.a', 'increment x', 'echo x', 'liquid']) {
    refused(`a: {% ${tag} %}`, /line 1: tag ".*" not found$/);
  }
  refused('{% capture x %}{{ values.a }}{% endcapture %}', /line 1: tag "capture" not found$/);
  for (const filter of ['raw', 'where_exp: "x", values.a', 'date: "%s"', 'sample']) {
    refused(`a: {{ values.a | ${filter} }}`, /line 1: undefined filter: /);
  }
});

test('templates are bounded in size, output and aliases', () => {
  refused(`a: "${'x'.repeat(300_000)}"`, /limit exceeded/);
  const loop =
    '{% for a in (1..1000) %}{% for b in (1..1000) %}{% for c in (1..1000) %}x{% endfor %}{% endfor %}{% endfor %}';
  refused(loop, /^template t: line 1: .*limit exceeded$/);
  const bomb = [
    'a: &a [x,x,x,x,x,x,x,x,x,x]',
    ...'bcdefgh'.split('').map((name, index) => {
      const below = `*${'abcdefg'[index]}`;
      return `${name}: &${name} [${Array(10).fill(below).join(',')}]`;
    }),
  ].join('\n');
  refused(bomb, /^template t: rendered text: expected at most 100000 values$/);
});
