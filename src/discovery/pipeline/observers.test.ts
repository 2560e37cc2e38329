import assert from 'node:assert/strict';
import { describe, it, test } from 'node:test';
import { Registry } from 'prom-client';
import { CtlError } from '../../core/errors.ts';
import { mockTimers } from '../../core/testing/mock-timers.ts';
import { byXdsType } from '../../core/xds-types.ts';
import type { DebugSource } from '../../debug/index.ts';
import { getScope } from '../../logging/index.ts';
import { createMetrics } from '../../observe/index.ts';
import { endpoints, parse, service, sidecar, snapshotOf } from '../../push/testing/mesh.ts';
import { defaultMeshConfig } from '../../resources/index.ts';
import type { Kind, ResourceProblem } from '../../resources/kinds/types.ts';
import type { CountedEvent } from '../../store/index.ts';
import { type GaugeSource, sampleGauges } from './gauges.ts';
import {
  certificateObserver,
  debounceHooks,
  engineObserver,
  ignoredEndpointsLog,
  logNameConflicts,
  publishProblems,
  SourceMeter,
  xdsObserver,
} from './observers.ts';
import { PushLog } from './push-log.ts';

/** Metrics, and a function that reads the value of a line. */
function measured() {
  const registry = new Registry();
  const metrics = createMetrics(registry);
  const value = async (line: string): Promise<number | undefined> => {
    const found = (await registry.metrics()).split('\n').find((text) => text.startsWith(`${line} `));
    return found === undefined ? undefined : Number(found.slice(line.length));
  };
  return { metrics, value };
}

const problem: ResourceProblem = {
  id: 'x',
  message: 'bad',
  field: 'spec',
  origin: { source: 'test', file: 'x.yaml', line: 3 },
};

describe('observers', () => {
  it('report the work of the engine, times in seconds', async () => {
    const { metrics, value } = measured();
    const lines: string[] = [];
    const observer = engineObserver(
      metrics,
      new PushLog({ write: (line) => lines.push(line), later: (ms, run) => ms < 5000 && run() }),
    );
    observer.triggered('endpoint');
    observer.converged(1500);
    observer.queueWaited(250);
    observer.stage('intern', 20);
    observer.failed('lds 80: broken', 'lds');
    observer.failed('what changed: broken');
    observer.generated('rds', 40);
    const failure = { view: 'v', failures: 1, error: 'broken', failingForMs: 0, retryInMs: 250 };
    observer.viewFailed(failure, ['cds', 'lds']);
    observer.pushBegan('a', 0);
    observer.pushEnded('a', 20);
    publishProblems(metrics)({ key: 'Service/a/b', message: 'broken' });
    assert.equal(await value('ctl_push_triggers{type="endpoint"}'), 1);
    assert.equal(await value('ctl_proxy_convergence_time_sum'), 1.5);
    assert.equal(await value('ctl_proxy_queue_time_sum'), 0.25);
    assert.equal(await value('ctl_stage_seconds_sum{stage="intern"}'), 0.02);
    assert.equal(await value('ctl_total_xds_internal_errors'), 3);
    assert.equal(await value('ctl_xds_pushes{type="lds_builderr"}'), 2);
    assert.equal(await value('ctl_xds_pushes{type="cds_builderr"}'), 1);
    assert.equal(await value('ctl_xds_push_errors_total{type="lds",reason="build"}'), 2);
    assert.equal(await value('ctl_xds_push_time_sum{type="rds"}'), 0.04);
    assert.equal(lines.length, 1);
    assert.equal(await value('ctl_xds_push_context_errors'), 1);
  });

  it('count streams, pushes, rejections and timeouts', async () => {
    const { metrics, value } = measured();
    const observer = xdsObserver(metrics);
    const [a, b] = ['a', 'b'].map((connectionId) => ({ connectionId, caller: '10.0.0.1' }));
    assert.ok(a !== undefined && b !== undefined);
    for (const stream of [a, b]) observer.connected(stream, sidecar('10.0.0.1', 'shop'));
    observer.disconnected(a);
    observer.pushed({ type: 'cds', connectionId: 'b', bytes: 10, compressed: 4, seconds: 0.5 });
    observer.rejected({ ...b, type: 'lds', nodeId: 'b', message: 'no', quarantined: 1, named: ['x'] });
    observer.expiredNonce('eds', 'b');
    observer.writeTimeout(b);
    observer.sendFailed('eds', 'timeout');
    observer.sendFailed('rds', 'send');
    observer.asked({ names: 3 });
    observer.asked({ unknown: 1, missed: 2 });
    observer.asked({ learned: 5, answered: [0.25, 0.5] });
    await new Promise((resolve) => setImmediate(resolve));
    assert.equal(await value('ctl_xds'), 1);
    assert.equal(await value('ctl_xds_on_demand_names_total'), 3);
    assert.equal(await value('ctl_xds_on_demand_unknown_names_total'), 1);
    assert.equal(await value('ctl_xds_on_demand_learned_misses_total'), 2);
    assert.equal(await value('ctl_xds_on_demand_learned_hosts_total'), 5);
    assert.equal(await value('ctl_xds_on_demand_answer_seconds_sum'), 0.75);
    assert.equal(await value('ctl_xds_on_demand_answer_seconds_count'), 2);
    assert.equal(await value('ctl_xds_pushes{type="cds"}'), 1);
    assert.equal(await value('ctl_xds_pushes{type="eds_senderr"}'), 1);
    assert.equal(await value('ctl_xds_push_errors_total{type="eds",reason="timeout"}'), 1);
    assert.equal(await value('ctl_xds_push_errors_total{type="rds",reason="send"}'), 1);
    assert.equal(await value('ctl_xds_config_size_bytes_sum{type="cds"}'), 10);
    assert.equal(await value('ctl_xds_compression_input_bytes_total'), 10);
    assert.equal(await value('ctl_xds_compression_output_bytes_total'), 4);
    assert.equal(await value('ctl_xds_push_time_sum{type="cds"}'), 0.5);
    assert.equal(await value('ctl_total_xds_rejects{type="lds"}'), 1);
    assert.equal(await value('ctl_xds_expired_nonce'), 1);
    assert.equal(await value('ctl_xds_write_timeout'), 1);
  });

  it('limit the lines about refused callers by address', (context) => {
    const { metrics } = measured();
    mockTimers(context);
    const warn = context.mock.method(getScope('authn'), 'warn', () => {});
    for (const observer of [xdsObserver(metrics), certificateObserver(metrics)]) {
      warn.mock.resetCalls();
      for (let port = 1000; port < 2000; port++) {
        observer.refused(`10.0.0.1:${port}`, new CtlError('unauthenticated', 'no credential'));
      }
      observer.refused('[fd00::1]:80', new CtlError('unauthenticated', 'no credential'));
      assert.equal(warn.mock.callCount(), 6);
      context.mock.timers.tick(10_000);
      assert.match(
        String(Reflect.get(warn.mock.calls.at(-1)?.arguments ?? [], 0)),
        /^… and 995 more in the last 10 s, the latest: refused a .* from 10.0.0.1:1999: no credential$/,
      );
    }
  });

  it('limit the lines that a caller can cause by connecting, rejecting, reading nothing and asking for anything', (t) => {
    const { metrics } = measured();
    mockTimers(t);
    const lines = (['info', 'warn'] as const).map((level) => t.mock.method(getScope('ads'), level, () => {}).mock);
    const count = (): number => lines.reduce((sum, mock) => sum + mock.callCount(), 0);
    const observer = xdsObserver(metrics);
    const deeds: ((stream: { connectionId: string; caller: string }) => void)[] = [
      (stream) => observer.connected(stream, sidecar('10.0.0.1', 'shop')),
      (stream) => observer.disconnected(stream),
      (stream) =>
        observer.rejected({ ...stream, type: 'cds', nodeId: 'x', message: 'no', quarantined: 12, named: ['a', 'b'] }),
      (stream) => observer.writeTimeout(stream),
      (stream) => observer.unknownType(stream, 'type.googleapis.com/x'),
    ];
    for (const deed of deeds) {
      for (const mock of lines) mock.resetCalls();
      for (let index = 0; index < 300; index++) deed({ connectionId: `bad-${index}`, caller: '10.0.0.9' });
      assert.equal(count(), 5);
      deed({ connectionId: 'good', caller: 'spiffe://cluster.local/ns/shop/sa/default' });
      assert.equal(count(), 6, 'of another caller');
      t.mock.timers.tick(10_000);
      assert.equal(count(), 7);
      const last = lines
        .flatMap((mock) => mock.calls.map(({ arguments: said }) => String(Reflect.get(said, 0))))
        .at(-1);
      assert.match(String(last), /^… and 295 more in the last 10 s, the latest: .*bad-299/);
    }
  });

  it('name some of the resources that a proxy rejects, and count the others', (t) => {
    const warn = t.mock.method(getScope('ads'), 'warn', () => {});
    const stream = { connectionId: 'a', caller: '10.0.0.1' };
    xdsObserver(measured().metrics).rejected({
      ...stream,
      type: 'cds',
      nodeId: 'a',
      message: 'no',
      quarantined: 12,
      named: ['x', 'y'],
    });
    assert.equal(
      Reflect.get(warn.mock.calls[0]?.arguments ?? [], 0),
      'a rejects cds: no; quarantined: x, y and 10 more',
    );
  });

  it('log name conflicts, with a limit', (context) => {
    const warn = context.mock.method(getScope('model'), 'warn', () => {});
    logNameConflicts(Array.from({ length: 25 }, (_, index) => ({ resource: 'x', message: `conflict ${index}` })));
    const lines = warn.mock.calls.map(({ arguments: said }) => String(Reflect.get(said, 0)));
    assert.deepEqual(
      [lines.length, lines[0], lines.at(-1)],
      [21, 'conflict 0', '5 more name conflicts, see /debug/configz'],
    );
  });

  it('warn once when all endpoints are of the excluded kind', (context) => {
    const warn = context.mock.method(getScope('model'), 'warn', () => {});
    const log = ignoredEndpointsLog();
    const slice = parse({
      apiVersion: 'discovery.k8s.io/v1',
      kind: 'EndpointSlice',
      metadata: { name: 'web-1', namespace: 'shop', labels: { 'kubernetes.io/service-name': 'web' } },
      addressType: 'IPv4',
      endpoints: [{ addresses: ['10.0.0.1'] }],
    });
    log(snapshotOf([service('shop', 'web'), endpoints('shop', 'web', '10.0.0.1'), slice]));
    assert.equal(warn.mock.callCount(), 0);
    for (let times = 0; times < 3; times++) log(snapshotOf([service('shop', 'web'), slice]));
    assert.deepEqual(
      warn.mock.calls.map(({ arguments: said }) => String(Reflect.get(said, 0))),
      [
        'CTL_USE_ENDPOINT_SLICE is false: services have no endpoints, because only Endpoints objects are read ' +
          'and all endpoints are in EndpointSlice objects',
      ],
    );
  });

  it('count the work of the debouncer', async () => {
    const { metrics, value } = measured();
    const hooks = debounceHooks(metrics);
    hooks.onChange();
    hooks.onTimerReset();
    hooks.onQuiesce();
    hooks.onMaxTime();
    hooks.onError(new Error('no'));
    for (const name of ['on_change', 'timer_resets', 'timer_quiesce_reached', 'timer_max_time_reached']) {
      assert.equal(await value(`cfg_runtime_strategy_${name}_total`), 1, name);
    }
    assert.equal(await value('ctl_xds_push_context_errors'), 1);
  });

  it('count events by kind and effect, and changes by type', async () => {
    const { metrics, value } = measured();
    const meter = new SourceMeter(metrics);
    const told = (effect: CountedEvent['effect'], kind: Kind | undefined, eventTime: number) => ({
      effect,
      kind,
      eventTime,
    });
    const events = [
      told('update', 'Service', 10),
      told('add', 'Endpoints', 30),
      told('delete', 'VirtualService', 30),
      told('invalid', undefined, 40),
    ];
    meter.received(events);
    meter.applied({
      changed: new Set(['Service/shop/web', 'Endpoints/shop/web', 'Pod/shop/x', 'VirtualService/shop/web'] as const),
      events,
      newProblems: 1,
    });
    assert.equal(await value('ctl_orch_reg_events{type="Service",event="update"}'), 1);
    assert.equal(await value('ctl_orch_reg_events{type="Endpoints",event="add"}'), 1);
    assert.equal(await value('ctl_orch_cfg_events{type="VirtualService",event="delete"}'), 1);
    assert.equal(await value('cfg_source_orch_event_error_total'), 1);
    assert.equal(await value('cfg_source_orch_dynamic_converter_success_total'), 2);
    assert.equal(await value('cfg_source_orch_dynamic_converter_failure_total'), 1);
    assert.equal(await value('cfg_runtime_processor_event_span_duration_milliseconds_sum'), 30);
    assert.equal(await value('ctl_inbound_updates{type="eds"}'), 2);
    assert.equal(await value('ctl_inbound_updates{type="svc"}'), 1);
    assert.equal(await value('ctl_inbound_updates{type="config"}'), 1);
    assert.equal(await value('ctl_total_orch_object_errors'), 1);
    assert.equal(await value('ctl_total_rejected_configs'), 1);
    // Ignored documents are not conversion errors.
    meter.ignored(2);
    assert.equal(await value('ctl_total_rejected_configs'), 3);
    assert.equal(await value('ctl_total_orch_object_errors'), 1);
  });
});

describe('sampled gauges', () => {
  it('show the current state, even when it decreases', async () => {
    const { metrics, value } = measured();
    const finding = { metric: 'ctl_vservice_dup_domain', type: 'rds', message: 'twice' } as const;
    let wrong = true;
    const source: DebugSource & GaugeSource = {
      snapshot: () =>
        snapshotOf([service('shop', 'web'), service('shop', 'api'), endpoints('shop', 'web', '10.0.0.1')]),
      // Building every connection's status for a scrape would cost tens of megabytes with thousands of proxies.
      connections: () => assert.fail('a scrape asks for counts alone'),
      quarantined: () => ({ ...byXdsType(() => 0), lds: wrong ? 2 : 0, rds: wrong ? 1 : 0, vhds: wrong ? 3 : 0 }),
      parts: () => [],
      demandCounts: () => {
        const proxies = { all: 1, 'on-demand': wrong ? 2 : 0, learned: 3 };
        return { proxies, overLimit: wrong ? 1 : 0, hosts: wrong ? 40 : 0 };
      },
      leadership: () => [],
      sources: () => {
        const health = wrong
          ? ({ ok: false, reason: 'away', since: performance.now() - 30_000 } as const)
          : ({ ok: true } as const);
        const refused = { id: 'refused', cluster: 'b', synced: false, health: { ok: false, reason: 'wrong' } } as const;
        return [{ id: 'kubernetes', cluster: 'a', synced: true, health }, refused];
      },
      documents: () => [],
      warningsOf: () => [],
      reasonsFor: () => [],
      readersOf: () => new Map(),
      sharedKeys: () => [],
      problems: () => (wrong ? [{ ...problem, key: 'Service/a/b' as const }, problem] : []),
      refusedPolicies: () => (wrong ? [{ problem, keys: [], inForce: 'substitute' }] : []),
      // The same message from two views is one finding.
      findings: () =>
        wrong
          ? [
              { ...finding, unit: '80' },
              { ...finding, unit: '81' },
            ]
          : [],
      engine: () => ({}),
      queued: () => (wrong ? 7 : 0),
      withheld: () => [],
      withheldCounts: () => (wrong ? new Map([['cds' as const, 2]]) : new Map()),
      failing: () => [],
      replica: 'one',
      mesh: () => defaultMeshConfig(),
      injection: () => ({}),
      analysisInput: () => assert.fail('not analyzed'),
      showConfigInAdsz: false,
    };
    sampleGauges(source, metrics);
    assert.equal(await value('ctl_services'), 2);
    assert.equal(await value('ctl_eds_no_instances'), 1);
    assert.equal(await value('ctl_eds_instances'), 1);
    assert.equal(await value('ctl_push_queue_length'), 7);
    const instances = (type: string) =>
      value(`cfg_runtime_state_type_instances_total{type="type.googleapis.com/${type}"}`);
    assert.equal(await instances('k8s.io.api.core.v1.Service'), 2);
    assert.equal(await instances('k8s.io.api.discovery.v1.EndpointSlice'), 0);
    assert.equal(await instances('mesh.networking.v1alpha3.VirtualService'), 0);
    assert.equal(await instances('mesh.security.v1beta1.PeerAuthentication'), 0);
    assert.equal(await value('ctl_push_withheld{type="cds"}'), 2);
    const onDemand = (name: string) => value(`ctl_xds_on_demand_${name}`);
    assert.equal(await onDemand('proxies{configuration="on-demand"}'), 2);
    assert.equal(await onDemand('proxies{configuration="learned"}'), 3);
    assert.deepEqual([await onDemand('over_limit'), await onDemand('hosts')], [1, 40]);
    assert.equal(await value('ctl_xds_lds_reject'), 2);
    assert.equal(await value('ctl_xds_rds_reject'), 4);
    assert.equal(await value('ctl_vservice_dup_domain'), 1);
    assert.equal(await value('ctl_orch_object_errors{type="Service"}'), 1);
    assert.equal(await value('ctl_orch_object_errors{type="unknown"}'), 1);
    assert.equal(await value('ctl_refused_security_documents{in_force="substitute"}'), 1);
    assert.equal(await value('ctl_refused_security_documents{in_force="last_good"}'), 0);
    assert.ok(Number(await value('ctl_source_stale_seconds{source="kubernetes"}')) >= 30);
    assert.equal(await value('ctl_source_stale_seconds{source="refused"}'), undefined);
    wrong = false;
    sampleGauges(source, metrics);
    assert.equal(await value('ctl_source_stale_seconds{source="kubernetes"}'), 0);
    assert.equal(await value('ctl_refused_security_documents{in_force="substitute"}'), 0);
    assert.equal(await value('ctl_push_withheld{type="cds"}'), undefined);
    assert.equal(await value('ctl_xds_lds_reject'), 0);
    assert.equal(await onDemand('proxies{configuration="on-demand"}'), 0);
    assert.deepEqual([await onDemand('over_limit'), await onDemand('hosts')], [0, 0]);
    assert.equal(await value('ctl_vservice_dup_domain'), 0);
    assert.equal(await value('ctl_orch_object_errors{type="Service"}'), undefined);
  });
});

test('what is withheld is logged with the proxy that rejected it and what Envoy wrote', (t) => {
  const said: string[] = [];
  t.mock.method(getScope('ads'), 'warn', (message: string) => said.push(message));
  const observer = engineObserver(measured().metrics, { began: () => {}, ended: () => {} } as never);
  const resource = {
    type: 'cds',
    versions: new Set(['v2']),
    acceptedVersion: 'v1',
    proxy: 'proxy-1',
    message: 'Error adding/updating cluster(s) web: no good',
    sinceMs: 0,
  } as const;
  const names = Array.from({ length: 6 }, (_, index) => `web-${index}`);
  observer.withheld(
    names.map((name) => ({ ...resource, name })),
    'outbound:shop/:1',
  );
  const line =
    'proxy-1 rejects cds web-0, which is withheld from the other proxies of outbound:shop/:1: ' +
    'Error adding/updating cluster(s) web: no good';
  assert.deepEqual([said.length, said[0]], [5, line]);
});

test('log lines have the scope of their subject', (t) => {
  const said: string[] = [];
  for (const scope of ['ads', 'authn', 'authorization', 'attributes'] as const) {
    for (const level of ['debug', 'info', 'warn'] as const) {
      t.mock.method(getScope(scope), level, (message: string, fields?: object) => {
        said.push(`${scope} ${level} ${message}${fields === undefined ? '' : ` ${Object.keys(fields).join()}`}`);
      });
    }
  }
  t.mock.method(getScope('attributes'), 'enabled', () => true);
  const { metrics } = measured();
  const observer = xdsObserver(metrics);
  observer.refused('10.0.0.1:5', new CtlError('unauthenticated', 'who is it'));
  observer.refused('10.0.0.1:6', new CtlError('permission_denied', 'not yours'));
  observer.refused('10.0.0.2:7', new CtlError('resource_exhausted', 'too many'));
  observer.connected({ connectionId: 'proxy-1', caller: '10.0.0.1' }, sidecar('10.0.0.1', 'shop'));
  assert.deepEqual(said, [
    'authn warn refused a stream from 10.0.0.1:5: who is it',
    'authorization warn refused a stream from 10.0.0.1:6: not yours',
    'ads warn refused a stream from 10.0.0.2:7: too many',
    'ads info connected proxy-1',
    'attributes debug attributes of proxy-1 ' +
      'type,namespace,serviceAccount,addresses,labels,network,locality,interception,version',
  ]);
});
