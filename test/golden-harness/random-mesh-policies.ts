/** Rules of the policy component of the random mesh, with what they need. */

const ROOT = 'mesh-system';

function component(kind: string, namespace: string, name: string, spec: string): string {
  return `{apiVersion: config.mesh.io/v1alpha2, kind: ${kind}, metadata: {name: ${name}, namespace: ${namespace}}, spec: ${spec}}`;
}

function rule(namespace: string, match: string, instance: string): string {
  const condition = match === '' ? '' : `match: '${match}', `;
  return component('rule', namespace, 'r', `{${condition}actions: [{handler: h, instances: [${instance}]}]}`);
}

const LINE = '{compiledTemplate: logentry, params: {variables: {u: \'request.headers["x-user"]\'}}}';

/** Each slot is one resource: absent, or in one of these forms. */
export const POLICY_SLOTS: readonly (readonly string[])[] = [
  [
    rule('a', 'destination.labels["app"] | "" == "web"', 'any'),
    rule('a', '(destination.service.host | "") == "web.a.svc.cluster.local"', 'line'),
    rule('a', 'request.headers["x-kind"] == "a"', 'line'),
  ],
  [
    rule(ROOT, 'destination.namespace == "c"', 'any'),
    rule(ROOT, 'destination.namespace == "b" || destination.labels["app"] == "web"', 'line'),
    rule(ROOT, '', 'line'),
  ],
  [component('instance', ROOT, 'line', LINE), component('instance', ROOT, 'line', '{compiledTemplate: checknothing}')],
  [component('instance', 'a', 'any', '{compiledTemplate: checknothing}'), component('instance', 'a', 'any', LINE)],
];
