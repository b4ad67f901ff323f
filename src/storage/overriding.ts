/** Objects, such as drivers, with some methods replaced. */

type Method = (...args: readonly unknown[]) => unknown

/**
 * Returns an object with the methods that `target` has now: those that `methods` returns, and the others as `wrap`
 * returns them. A method that the target lacks stays absent, so that each of them may call the method that it replaces.
 * Other properties are read from the target at each use.
 */
export function overriding<T extends object>(
  target: T,
  methods: (inner: Required<T>) => Partial<T>,
  wrap: (method: Method, name: string) => Method = (method) => method.bind(target),
): T {
  const replaced = methods(target as Required<T>)
  const result: Record<string, unknown> = {}
  for (const name of propertiesOf(target)) {
    const value: unknown = target[name as keyof T]
    if (typeof value === 'function') result[name] = replaced[name as keyof T] ?? wrap(value as Method, name)
    else Object.defineProperty(result, name, { get: () => target[name as keyof T], enumerable: true })
  }
  // V8 looks up the properties of a prototype faster than those of an object that was filled by computed names.
  return Object.create(result) as T
}

/** The names of the properties of an object and of its classes. */
function propertiesOf(target: object): ReadonlySet<string> {
  const names = new Set<string>()
  for (let at = target; at !== Object.prototype; at = Object.getPrototypeOf(at) as object) {
    for (const name of Object.getOwnPropertyNames(at)) if (name !== 'constructor') names.add(name)
  }
  return names
}
