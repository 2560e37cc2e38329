import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { lazyModule } from './lazy.ts';

/** Generated code: a package with a message that refers to another, which has an enum. */
const GENERATED = `export const mesh = $root.mesh = (() => {

    const mesh = {};

    mesh.One = (function() {

        const One = function (p) {
        };

        One.encode = function (m) {
            return $root.mesh.Two.encode(m) + One.made;
        };

        One.decode = function () {
            return new $root.mesh.Two();
        };

        One.made = $made("One");

        return One;
    })();

    mesh.Two = (function() {

        const Two = function () {
        };

        Two.Color = (function() {
            const values = { RED: $made("Color") };
            return values;
        })();

        Two.encode = function (m) {
            return m + $made("Two");
        };

        return Two;
    })();

    return mesh;
})();
`;

interface Loaded {
  readonly mesh: {
    readonly One: { encode(value: string): string; decode(): object };
    readonly Two: { readonly Color: { readonly RED: string } };
  };
}

function load(made: (what: string) => string): Loaded {
  const text = `${lazyModule(GENERATED).replace('export const', 'const')}\nreturn { mesh };`;
  return new Function('$root', '$made', text)({}, made) as Loaded;
}

describe('generated code', () => {
  it('runs once, at the first use', () => {
    const order: string[] = [];
    const { mesh } = load((what) => {
      order.push(what);
      return what;
    });
    assert.deepEqual(order, []);
    assert.deepEqual(Object.keys(mesh), ['One', 'Two']);
    assert.deepEqual(order, []);
    assert.equal(mesh.One.encode('x'), 'xTwoOne');
    assert.equal(mesh.One, mesh.One);
    assert.deepEqual(order, ['One', 'Two']);
    assert.equal(mesh.Two.Color.RED, 'Color');
    assert.ok(mesh.One.decode() instanceof (mesh.Two as unknown as new () => object));
  });

  it('is refused in another form', () => {
    assert.throws(() => lazyModule('export const mesh = {};'), /does not have the expected form/);
    assert.throws(
      () => lazyModule(GENERATED.replaceAll('    })();', '      })();')),
      /does not have the expected form/,
    );
  });
});
