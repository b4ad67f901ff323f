/**
 * An error that leaves `VirtualFs` names the operation and the path, as the principal wrote it, whatever call of the
 * driver failed.
 */
import { once } from 'node:events'
import { Readable } from 'node:stream'
import t, { type Test } from 'tap'
import { MemoryDriver } from '../../drivers/memory/memory.js'
import type { Driver } from '../../src/contract/driver.js'
import { GatewayError, TreeError, type OperationName } from '../../src/base/errors.js'
import type { Log } from '../../src/base/log.js'
import { asPath as p } from '../../src/base/path.js'
import { LockedError } from '../../src/locks/webdav-locks.js'
import { VirtualFs } from '../../src/tree/virtual-fs.js'
import { principal } from '../accounts/principals.js'
import { flaky } from '../drivers/flaky.js'
import { altered, newTree, openBody, sourceOf, text } from './tree-fixture.js'

/** The principal's own tree is the folder `/base`: `/d/file`, `/d/below/file`, `/other`. */
const base = '/base'
const file = p('/d/file')
const keep = { overwrite: false }

interface Row {
  readonly op: OperationName
  readonly path: string
  readonly act: (fs: VirtualFs) => Promise<unknown>
}

async function pagesOf(fs: VirtualFs): Promise<void> {
  for await (const page of fs.pages(p('/d'))) if (page.length > 1000) return
}

const reads: readonly Row[] = [
  { op: 'stat', path: file, act: (fs) => fs.stat(file) },
  { op: 'list', path: '/d', act: (fs) => fs.list(p('/d')) },
  { op: 'list', path: '/d', act: pagesOf },
  { op: 'read', path: file, act: (fs) => text(fs.read(file)) },
  { op: 'open', path: file, act: (fs) => fs.open(file, 'read') },
  { op: 'usage', path: '/d', act: (fs) => fs.usage(p('/d')) },
]

const changes: readonly Row[] = [
  { op: 'write', path: '/d/new', act: (fs) => fs.write(p('/d/new'), sourceOf('x')) },
  { op: 'open', path: file, act: (fs) => fs.open(file, 'update') },
  { op: 'open', path: '/d/new', act: (fs) => fs.open(p('/d/new'), 'replace') },
  { op: 'make folder', path: '/d/new', act: (fs) => fs.mkdir(p('/d/new')) },
  { op: 'remove', path: file, act: (fs) => fs.remove(file) },
  { op: 'remove', path: '/d', act: (fs) => fs.remove(p('/d'), { what: 'tree' }) },
  { op: 'move', path: file, act: (fs) => fs.move(file, p('/d/new'), keep) },
  { op: 'copy', path: file, act: (fs) => fs.copy(file, p('/d/new'), keep) },
  { op: 'copy', path: '/d', act: (fs) => fs.copy(p('/d'), p('/new'), keep) },
  { op: 'set attributes', path: file, act: (fs) => fs.setAttributes(file, { modified: new Date(0) }) },
  { op: 'set properties', path: file, act: (fs) => fs.setProperties(file, []) },
]

async function ground(t: Parameters<typeof newTree>[0]) {
  let struck: keyof Driver | undefined
  let inner = new MemoryDriver(0)
  const driver = new Proxy(inner, {
    get(_target, name: keyof MemoryDriver) {
      const value: unknown = Reflect.get(inner, name)
      if (typeof value !== 'function') return value
      return (...words: unknown[]): unknown => {
        const failure = () => new GatewayError('unavailable', { op: 'identify', path: '/of/the/driver' })
        if (name !== struck) return Reflect.apply(value as () => unknown, inner, words)
        if (name !== 'pages') return Promise.reject(failure())
        return { [Symbol.asyncIterator]: () => ({ next: () => Promise.reject(failure()) }) }
      }
    },
  })
  const { as, dependencies } = await newTree(t, { '/': { driverOf: async () => driver, cacheExpiration: 0 } })
  const all = as()
  /** Another drive, with the same files. */
  const renew = async (): Promise<void> => {
    inner = new MemoryDriver(0)
    for (const path of ['/d/file', '/d/below/file', '/other']) {
      await all.write(p(base + path), sourceOf('abc'), { parents: true })
    }
  }
  await renew()
  return { fs: as({ base }), all, dependencies, renew, strike: (name: keyof Driver | undefined) => (struck = name) }
}

/** The operation and the path that an error names. */
function contextOf(error: unknown): object {
  const { op, path } = error as GatewayError
  return { op, path }
}

const struckMethods = ['stat', 'pages', 'read', 'write', 'mkdir', 'remove', 'removeTree', 'move', 'copy'] as const
const moreMethods = ['open', 'setAttributes', 'folderRevision', 'usage'] as const

for (const { op, path, act } of [...reads, ...changes]) {
  void t.test(`an error of ${op} names the operation and ${path}: ${act.toString()}`, async (t) => {
    let failed = 0
    const { fs, strike, renew } = await ground(t)
    for (const method of [...struckMethods, ...moreMethods]) {
      await renew()
      strike(method)
      const error = await act(fs).then(
        () => undefined,
        (reason: unknown) => reason,
      )
      strike(undefined)
      if (error === undefined) continue
      failed++
      t.strictSame(contextOf(error), { op, path }, `when ${method}() fails`)
      t.notMatch((error as Error).message, /of\/the\/driver|\/base/)
    }
    t.ok(failed > 0, 'it has failed')
  })
}

void t.test('an error of a tree or of a lock names the operation and the path', async (t) => {
  const { fs, strike } = await ground(t)
  strike('copy')
  const ofTree = await fs.copy(p('/d'), p('/new'), keep).catch((error: unknown) => error)
  strike(undefined)
  t.type(ofTree, TreeError)
  t.strictSame(contextOf(ofTree), { op: 'copy', path: '/d' })
  for (const failure of (ofTree as TreeError).failures) t.notMatch(failure.path, /^\/base/)
  await fs.lock(p('/d'), { scope: 'exclusive', deep: true, owner: '', seconds: 60 })
  // A lock does not refuse a copy of what it covers.
  const refused = changes.filter(({ op, path }) => op !== 'copy' || path !== '/d')
  for (const { op, path, act } of refused) {
    const error = await act(fs).catch((reason: unknown) => reason)
    t.type(error, LockedError, `${op} of ${path}`)
    t.strictSame(contextOf(error), { op, path })
    t.notMatch((error as LockedError).lock.path, /^\/base/)
  }
})

void t.test('the error of a lock keeps the original as its cause', async (t) => {
  const { fs, all } = await ground(t)
  await all.lock(p('/base/d'), { scope: 'exclusive', deep: true, owner: '', seconds: 60 })
  const error = (await fs.remove(file).catch((reason: unknown) => reason)) as LockedError
  t.equal(error.lock.path, '/d')
  t.type(error.cause, LockedError)
  const inner = new LockedError(error.lock)
  t.equal(inner.at('move', '/x').cause, inner)
})

void t.test('the error after a revocation keeps the aborted call as its cause', async (t) => {
  const { dependencies } = await ground(t)
  const revocation = new AbortController()
  const fs = new VirtualFs(dependencies, principal({ base, signal: revocation.signal }))
  const { source, body } = openBody()
  const read = async () => {
    setImmediate(() => revocation.abort())
    return body
  }
  const writing = fs.write(p('/d/new'), { ...source, read })
  await t.rejects(writing, { code: 'unauthenticated', cause: { code: 'aborted' } })
})

/** A tree whose file `/d/file` is read from the stream that `read` returns, and the errors that it logs. */
async function streamed(t: Test, read: (driver: Driver) => Driver) {
  const driver = read(new MemoryDriver(0))
  const { dependencies, settings } = await newTree(t, { '/': { driverOf: async () => driver, cacheExpiration: 0 } })
  const lines: object[] = []
  const log = { error: (details: object, message: string) => lines.push({ ...details, message }) } as unknown as Log
  const fs = new VirtualFs({ ...dependencies, log }, principal({ base }))
  await fs.write(file, sourceOf('abc'), { parents: true })
  return { fs, lines, settings }
}

for (const speed of ['-1', '100000']) {
  void t.test(`an error in the middle of a streamed read has its context at a speed of ${speed}`, async (t) => {
    const unexpected = new TypeError('x of undefined')
    const unavailable = new GatewayError('unavailable', { op: 'identify', path: '/of/the/driver' })
    for (const error of [unexpected, unavailable]) {
      const cut = { method: 'read', fault: { kind: 'cut', after: 1, error } } as const
      const { fs, lines, settings } = await streamed(t, (driver) => flaky(driver, [cut]).driver)
      await settings.set(new Map([['max_client_download_speed', speed]]))
      const isUnexpected = error === unexpected
      const context = { op: 'read', path: file }
      const failure: unknown = await text(fs.read(file)).catch((reason: unknown) => reason)
      t.strictSame(contextOf(failure), context)
      t.equal((failure as GatewayError).code, isUnexpected ? 'internal' : 'unavailable')
      const line = { user: 'ada', protocol: 'http', storage: '/', err: error, message: `read: ${file}: internal error` }
      t.strictSame(lines, isUnexpected ? [line] : [])
      const stream = await fs.read(file)
      stream.resume()
      const thrown: unknown = await once(stream, 'error').then(
        ([reason]) => reason as unknown,
        (reason: unknown) => reason,
      )
      t.strictSame(contextOf(thrown), context, 'without an iterator')
    }
  })
}

void t.test('an error with which the reader ends a streamed read is not one of the storage', async (t) => {
  const endless = new Readable({ read: () => endless.push(Buffer.alloc(1000)) })
  const { fs, lines } = await streamed(t, (driver) => altered(driver, { read: async () => endless }))
  const stream = await fs.read(file)
  const failure = new TypeError('of the reader')
  stream.once('data', () => stream.destroy(failure))
  t.equal(await once(stream, 'close').catch((reason: unknown) => reason), failure)
  t.ok(endless.destroyed)
  t.same(lines, [])
})

void t.test('a streamed read does not start before its reader, nor read ahead of it', async (t) => {
  let given = 0
  const counted = new Readable({
    highWaterMark: 0,
    read: () => counted.push(given++ < 100 ? Buffer.alloc(1000) : null),
  })
  const { fs } = await streamed(t, (driver) => altered(driver, { read: async () => counted }))
  const stream = await fs.read(file)
  await new Promise((resolve) => setImmediate(resolve))
  t.equal(given, 0)
  for await (const chunk of stream) {
    t.equal((chunk as Buffer).length, 1000)
    break
  }
  t.ok(given < 5, `${given} chunks were read`)
})
