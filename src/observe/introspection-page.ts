/** The page of the introspection facility: links, and a table of log scopes whose levels can be changed. */

import { LOG_LEVELS, type ProgramName } from '../logging/index.ts';

/** The page needs no escaping: all text in it is from this program. */
export function introspectionPage(program: ProgramName): string {
  const links = ['envj', 'procj', 'memj', 'versionj', 'scopej'].map((name) => `<a href="/${name}/">${name}</a>`);
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>${program}</title>
<style>body{font:14px system-ui;margin:2em}td,th{padding:.2em 1em;text-align:left}a{margin-right:1em}</style></head>
<body><h1>${program}</h1>
<p>${links.join('\n')}<a href="/metrics">metrics</a></p>
<h2>Log scopes</h2>
<table><thead><tr><th>Scope</th><th>Output level</th><th>Stack trace level</th><th>Caller</th></tr></thead>
<tbody id="scopes"></tbody></table>
<script>
const levels = ${JSON.stringify(LOG_LEVELS)};
const put = (name, change) => fetch('/scopej/' + name, {
  method: 'PUT', headers: {'content-type': 'application/json'}, body: JSON.stringify(change)}).then(show);
const picker = (scope, key) => {
  const select = document.createElement('select');
  for (const level of levels) select.add(new Option(level, level, false, level === scope[key]));
  select.onchange = () => put(scope.name, {[key]: select.value});
  return select;
};
const tick = (scope) => {
  const box = document.createElement('input');
  box.type = 'checkbox';
  box.checked = scope.log_callers;
  box.onchange = () => put(scope.name, {log_callers: box.checked});
  return box;
};
async function show() {
  const scopes = await (await fetch('/scopej/')).json();
  document.getElementById('scopes').replaceChildren(...scopes.map((scope) => {
    const row = document.createElement('tr');
    for (const part of [scope.name, picker(scope, 'output_level'), picker(scope, 'stack_trace_level'), tick(scope)]) {
      row.insertCell().append(part);
    }
    return row;
  }));
}
show();
</script></body></html>
`;
}
