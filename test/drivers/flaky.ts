/**
 * A driver that fails on purpose, at the same point each time. Code on top of it must leave no half files, leaks or
 * wrong listings.
 */
import { Readable } from 'node:stream'
import type { OpenFile } from '../../src/contract/capabilities.js'
import type { Driver } from '../../src/contract/driver.js'
import type { Entry } from '../../src/contract/entry.js'
import { GatewayError } from '../../src/base/errors.js'

export type Fault =
  /** The call rejects before it has any effect. */
  | { readonly kind: 'fail'; readonly error?: Error }
  /** The call takes effect and then rejects, as if the response were lost. */
  | { readonly kind: 'fail after'; readonly error?: Error }
  /** The call waits until `release` is called. An aborted signal ends it. */
  | { readonly kind: 'stall' }
  /** A stream (of `read`, or the body of `write`) fails after this many bytes. */
  | { readonly kind: 'cut'; readonly after: number; readonly error?: Error }
  /** Reads of a handle return at most this many bytes, and chunks of a stream have no more. */
  | { readonly kind: 'short'; readonly bytes: number }

export interface Planned {
  /** The method that fails. */
  readonly method: keyof Driver
  /** The number of the call that fails, counted from 1. Defaults to every call. */
  readonly call?: number
  readonly fault: Fault
}

interface Flaky {
  readonly driver: Driver
  /** The number of calls of a method. */
  calls(method: keyof Driver): number
  /** Resumes every stalled call. */
  release(): void
}

type Method = (...args: unknown[]) => unknown

export function flaky(inner: Driver, plan: readonly Planned[]): Flaky {
  const counts = new Map<keyof Driver, number>()
  const stalled = new Set<() => void>()
  const strike = (method: keyof Driver): Fault | undefined => {
    const count = (counts.get(method) ?? 0) + 1
    counts.set(method, count)
    return plan.find((each) => each.method === method && (each.call ?? count) === count)?.fault
  }
  const stall = (args: readonly unknown[]) =>
    new Promise<void>((resolve, reject) => {
      stalled.add(resolve)
      const signal = signalOf(args)
      const stop = () => reject(new GatewayError('aborted'))
      if (signal?.aborted) stop()
      else signal?.addEventListener('abort', stop, { once: true })
    })

  const wrap = (name: keyof Driver, method: Method): Method => {
    if (name === 'pages')
      return (...args) =>
        pages(
          strike(name),
          () => method.apply(inner, args) as Pages,
          () => stall(args),
        )
    return async (...args) => {
      const fault = strike(name)
      if (fault?.kind === 'fail') throw errorOf(fault)
      if (fault?.kind === 'stall') await stall(args)
      const given = fault?.kind === 'cut' && name === 'write' ? withCutBody(args, fault) : args
      const answer = await method.apply(inner, [...given])
      if (fault?.kind === 'fail after') throw errorOf(fault)
      if (fault?.kind === 'cut' && answer instanceof Readable) return cut(answer, fault)
      if (fault?.kind === 'short' && answer instanceof Readable) return inChunks(answer, fault.bytes)
      if (fault?.kind === 'short' && name === 'open') return short(answer as OpenFile, fault.bytes)
      return answer
    }
  }

  const driver = new Proxy(inner, {
    get(target, name: keyof Driver) {
      const value: unknown = Reflect.get(target, name)
      return typeof value === 'function' ? wrap(name, value as Method) : value
    },
  })
  return {
    driver,
    calls: (method) => counts.get(method) ?? 0,
    release: () => {
      for (const go of stalled) go()
      stalled.clear()
    },
  }
}

type Pages = AsyncIterable<readonly Entry[]>

/** `cut` and `fail after` fail after the first page. */
async function* pages(fault: Fault | undefined, list: () => Pages, stall: () => Promise<void>): Pages {
  if (fault?.kind === 'fail') throw errorOf(fault)
  if (fault?.kind === 'stall') await stall()
  for await (const page of list()) {
    yield page
    if (fault?.kind === 'cut' || fault?.kind === 'fail after') throw errorOf(fault)
  }
}

function errorOf(fault: { readonly error?: Error }): Error {
  return fault.error ?? new GatewayError('unavailable', { reason: 'this driver is flaky' })
}

function signalOf(args: readonly unknown[]): AbortSignal | undefined {
  for (const argument of args) {
    const signal = (argument as { readonly signal?: unknown } | undefined)?.signal
    if (signal instanceof AbortSignal) return signal
  }
  return undefined
}

type Cut = Extract<Fault, { kind: 'cut' }>

function cut(stream: Readable, fault: Cut): Readable {
  const bytes = async function* () {
    let left = fault.after
    for await (const chunk of stream as AsyncIterable<Buffer>) {
      if (chunk.length > left) {
        if (left > 0) yield chunk.subarray(0, left)
        throw errorOf(fault)
      }
      left -= chunk.length
      yield chunk
    }
  }
  return Readable.from(bytes(), { objectMode: false }).once('close', () => stream.destroy())
}

function withCutBody([path, source, ...rest]: readonly unknown[], fault: Cut): readonly unknown[] {
  const body = source as { read: (...args: readonly unknown[]) => Promise<Readable> }
  const read = async (...args: readonly unknown[]) => cut(await body.read(...args), fault)
  return [path, { ...body, read }, ...rest]
}

function inChunks(stream: Readable, size: number): Readable {
  const chunks = async function* () {
    for await (const chunk of stream as AsyncIterable<Buffer>) {
      for (let at = 0; at < chunk.length; at += size) yield chunk.subarray(at, at + size)
    }
  }
  return Readable.from(chunks(), { objectMode: false, highWaterMark: 1 }).once('close', () => stream.destroy())
}

function short(handle: OpenFile, bytes: number): OpenFile {
  return new Proxy(handle, {
    get(target, name: keyof OpenFile) {
      if (name === 'read') return (into: Buffer, at: number) => target.read(into.subarray(0, bytes), at)
      const value: unknown = Reflect.get(target, name)
      return typeof value === 'function' ? (value as Method).bind(target) : value
    },
  })
}
