/** Objects, such as drivers, with some methods replaced. */

type Method = (...args: readonly unknown[]) => unknown

/**
 * Returns `target` with its methods replaced by those that `methods` returns. A method that the target lacks stays
 * absent, so that each of them may call the method that it replaces. `wrap` returns what replaces every other method.
 */
export function overriding<T extends object>(
  target: T,
  methods: (inner: Required<T>) => Partial<T>,
  wrap: (method: Method, name: string) => Method = (method) => method.bind(target),
): T {
  const replaced = methods(target as Required<T>)
  const wrapped = new Map<string | symbol, { readonly method: unknown; readonly replacement: Method }>()
  return new Proxy(target, {
    get(_target, name) {
      const value: unknown = target[name as keyof T]
      if (typeof value !== 'function') return value
      const replacement = replaced[name as keyof T]
      if (replacement !== undefined) return replacement
      const known = wrapped.get(name)
      if (known?.method === value) return known.replacement
      const made = wrap(value as Method, String(name))
      wrapped.set(name, { method: value, replacement: made })
      return made
    },
  })
}
