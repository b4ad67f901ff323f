/** Drivers, handles and uploads with some methods replaced. */
import type { OpenFile, Upload } from '../contract/capabilities.js'
import type { Driver } from '../contract/driver.js'
import { driverOperations } from './operation-names.js'

type Method = (...args: readonly unknown[]) => unknown

/** The names of all properties that objects of a type can have. */
export type PropertiesOf<T> = Readonly<Record<keyof T, true>>

export const driverProperties: PropertiesOf<Driver> = {
  traits: true,
  ...(Object.fromEntries(Object.keys(driverOperations).map((name) => [name, true])) as Omit<
    PropertiesOf<Driver>,
    'traits'
  >),
}
export const fileProperties: PropertiesOf<OpenFile> = {
  entry: true,
  preferredReadSize: true,
  read: true,
  write: true,
  truncate: true,
  sync: true,
  commit: true,
  close: true,
}
export const uploadProperties: PropertiesOf<Upload> = {
  token: true,
  committedOffset: true,
  write: true,
  commit: true,
  close: true,
}

/**
 * Returns an object with the methods that `target` has now: those that `methods` returns, and the others as `wrap`
 * returns them. A method that the target lacks stays absent, so that each of them may call the method that it replaces.
 * Methods and other properties are read from the target at each use. They are properties of the object's prototype, so
 * a spread does not copy them.
 */
export function overriding<T extends object>(
  target: T,
  properties: PropertiesOf<T>,
  methods: (inner: Required<T>) => Partial<T>,
  wrap: (method: Method, name: string) => Method = (method) => method,
): T {
  const replaced = methods(target as Required<T>)
  const result: Record<string, unknown> = {}
  for (const name of Object.keys(properties)) {
    const key = name as keyof T
    const method: Method = (...args) => Reflect.apply(target[key] as Method, target, args)
    if (typeof target[key] === 'function') result[name] = replaced[key] ?? wrap(method, name)
    else if (target[key] !== undefined) Object.defineProperty(result, name, { get: () => target[key] })
  }
  // V8 looks up the properties of a prototype faster than those of an object that was filled by computed names.
  return Object.create(result) as T
}
