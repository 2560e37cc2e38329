/** Values that belong to a pair of objects, kept for as long as both are. */

export type WeakCache<V> = WeakMap<object, WeakMap<object, V>>;

export function cached<V>(cache: WeakCache<V>, one: object, two: object, make: () => V): V {
  let inner = cache.get(one);
  if (inner === undefined) {
    inner = new WeakMap();
    cache.set(one, inner);
  }
  let value = inner.get(two);
  if (value === undefined) {
    value = make();
    inner.set(two, value);
  }
  return value;
}
