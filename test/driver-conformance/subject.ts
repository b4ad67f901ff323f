/** The driver under test, and helpers that fill it and read it. */
import { randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import type { Test } from 'tap'
import type { Source } from '../../src/contract/call-options.js'
import type { DirectUrl, UrlClient } from '../../src/contract/capabilities.js'
import type { Driver } from '../../src/contract/driver.js'
import type { AnyDriverType } from '../../src/contract/driver-type.js'
import type { Entry } from '../../src/contract/entry.js'
import { defaultTraits, type Traits } from '../../src/contract/traits.js'
import { GatewayError, toGatewayError, type ErrorCode } from '../../src/base/errors.js'
import type { Path } from '../../src/base/path.js'
import { ListableNames } from '../../src/storage/listable-names.js'
import { sendAsNeeded, Spool } from '../../src/storage/fallbacks/spool.js'
import { asDriver, newGuardedDriver } from '../storage/new-guarded-driver.js'
import { altered } from '../tree/tree-fixture.js'

/** Changes of the backend by another program, of which the driver learns nothing. Paths are those of the driver. */
export interface Elsewhere {
  /** Puts another file in the place of this one. */
  replace(path: string, content: string): Promise<void>
  /** Puts another folder in the place of this one, with files of these names, relative to it, in folders as needed. */
  replaceFolder(path: string, files: Readonly<Record<string, string>>): Promise<void>
  /** Creates a file of any name in a folder, even if it has an entry of that name. */
  create(folder: string, name: string, content: string): Promise<void>
}

interface Opened {
  readonly driver: Driver
  /** Absent: tests with changes by another program are left out. */
  readonly elsewhere?: Elsewhere
  /** What a client receives from a direct URL; undefined if the server refuses it to this client. */
  readonly fetchDirectUrl?: (url: DirectUrl, client: UrlClient) => Promise<string | undefined>
  /** Completes a download that the backend makes by itself: it stores one file. Absent: such tests are left out. */
  readonly finishDownload?: (address: string, name: string, content: string) => Promise<void>
  /** Opens the same backend again. `uploads`: tokens of uploads that may be resumed. */
  readonly again?: (uploads: readonly string[]) => Promise<Driver>
  dispose(): Promise<void>
}

export interface Candidate {
  /** `test/driver-conformance/every-driver.test.ts` finds by it which drivers run the suite. */
  readonly type: Pick<AnyDriverType, 'facts' | 'traits'>
  /** A new, empty backend each time; of a read-only driver (`facts.readOnly`), one with files and nested folders. */
  open(): Promise<Opened>
  /** Number of entries of the large folder. Defaults to 10,000; fewer where each write is slow. */
  readonly many?: number
  /** Bytes of the longest name that the backend can store. Defaults to 255. */
  readonly longestName?: number
  /** Whether the backend cannot store this name, so that the driver rejects it. Defaults to no name. */
  readonly cannotKeep?: (name: string) => boolean
}

/** A driver with the methods that every writable driver has. */
export type WritableDriver = Driver & Required<Pick<Driver, 'write' | 'mkdir' | 'remove'>>

export interface Subject {
  /** The driver as a storage calls it, with the checks that the core makes for every driver. */
  readonly driver: WritableDriver
  /** The driver itself. */
  readonly own: Driver
  readonly again: Opened['again']
  readonly elsewhere: Opened['elsewhere']
  readonly fetchDirectUrl: Opened['fetchDirectUrl']
  readonly finishDownload: Opened['finishDownload']
  readonly traits: Traits
  readonly many: number
  readonly longestName: number
  readonly cannotKeep: (name: string) => boolean
}

/** A path from a literal of the suite, without validation. */
export function at(text: string): Path {
  return text as Path
}

export function source(data: string | Buffer, size: number | undefined = Buffer.byteLength(data)): Source {
  return { size, rereadable: false, read: async () => Readable.from([Buffer.from(data)], { objectMode: false }) }
}

/** A body of known size in chunks. The event loop may turn between them. */
export function chunks(count: number, chunk: Buffer): Source {
  const all = function* () {
    for (let index = 0; index < count; index++) yield chunk
  }
  return {
    size: count * chunk.length,
    rereadable: false,
    read: async () => Readable.from(all(), { objectMode: false }),
  }
}

/** A body that transfers its chunks: the first is full of ones, the next of twos. `chunks`: those read so far. */
export function given(count: number, size: number) {
  const chunks: Buffer[] = []
  const body = new Readable({
    read() {
      const chunk = chunks.length < count ? Buffer.allocUnsafeSlow(size).fill(chunks.length + 1) : null
      if (chunk) chunks.push(chunk)
      this.push(chunk)
    },
  })
  const givingSource: Source = {
    size: count * size,
    rereadable: false,
    read: async () => Object.assign(body, { givesChunks: true } as const),
  }
  return { source: givingSource, chunks }
}

/** A body that never ends. `begun` resolves when it is read. */
export function endless(size?: number) {
  const body = new Readable({ read: () => undefined })
  let begin: () => void = () => undefined
  const begun = new Promise<void>((resolve) => (begin = resolve))
  // It may fail before a slow backend reads it.
  body.on('error', () => undefined)
  body.push(randomBytes(100_000))
  const endlessSource: Source = {
    size,
    rereadable: false,
    read: async () => {
      begin()
      return body
    },
  }
  return { source: endlessSource, body, begun }
}

export async function put(driver: WritableDriver, path: string, data: string | Buffer): Promise<Entry> {
  return driver.write(at(path), source(data))
}

export async function bytesAt(driver: Driver, path: string, offset?: number, length?: number): Promise<Buffer> {
  return buffer(await driver.read(at(path), offset === undefined ? undefined : { offset, length }))
}

export async function textAt(driver: Driver, path: string, offset?: number, length?: number): Promise<string> {
  return (await bytesAt(driver, path, offset, length)).toString()
}

export async function listed(driver: Driver, path: string): Promise<Entry[]> {
  const entries: Entry[] = []
  for await (const page of driver.pages(at(path))) entries.push(...page)
  return entries.sort((one, other) => (one.name < other.name ? -1 : 1))
}

/**
 * The names of this driver's listings that the core shows, and the folders for which it logs that names are left out.
 */
export function shownBy(driver: Driver) {
  const logged: object[] = []
  const silent = () => undefined
  const warn = (details: object) => void logged.push(details)
  const listedNames = new ListableNames({ debug: silent, info: silent, warn, error: silent })
  const names = async (path: string) => {
    const shown: string[] = []
    const pages = listedNames.filterPages(at(path), driver.pages(at(path)))
    for await (const page of pages) shown.push(...page.map(({ name }) => name))
    return shown.sort()
  }
  return { names, logged }
}

export async function namesIn(driver: Driver, path: string): Promise<string[]> {
  return (await listed(driver, path)).map((entry) => entry.name)
}

/** Expects a GatewayError with one of these codes. */
export async function refuses(
  t: Test,
  call: () => Promise<unknown>,
  codes: ErrorCode | readonly ErrorCode[],
  message: string,
): Promise<void> {
  const allowed: readonly ErrorCode[] = typeof codes === 'string' ? [codes] : codes
  try {
    await call()
    t.fail(`${message}: it did not reject`)
  } catch (error) {
    t.ok(error instanceof GatewayError, `${message}: with a GatewayError`)
    const { code } = error as GatewayError
    t.ok(allowed.includes(code), `${message}: with ${allowed.join(' or ')}`, { found: code, error })
  }
}

/** Creates a folder that exists on every driver: with a file in it if the driver has no empty folders. */
export async function makeFolder({ driver, traits }: Subject, path: string): Promise<void> {
  await driver.mkdir(at(path))
  if (!traits.emptyFolders) await put(driver, `${path}/kept`, '')
}

/** Expects that an emptied folder is empty, or missing if the driver has no empty folders. */
export async function isEmptied(t: Test, { driver, traits }: Subject, path: string): Promise<void> {
  if (traits.emptyFolders) t.same(await listed(driver, path), [], `${path} is empty`)
  else await refuses(t, () => listed(driver, path), 'not_found', `${path} is missing`)
}

/** Expects that a call into a missing folder rejects with parent_missing, unless the driver has no empty folders. */
export async function missesParent(t: Test, { traits }: Subject, call: () => Promise<unknown>): Promise<void> {
  if (traits.emptyFolders) await refuses(t, call, 'parent_missing', 'without a parent')
}

/** Titles of the tests that were left out, by what the driver lacks. */
export type LeftOut = Map<string, string[]>

/** Runs one test on a newly opened driver, or adds it to `leftOut` if `lacks` returns what the driver lacks for it. */
export function subjects(t: Test, candidate: Candidate, leftOut: LeftOut) {
  const open = async () => {
    const opened = await candidate.open()
    const traits = { ...defaultTraits, ...candidate.type.traits, ...opened.driver.traits }
    return { opened, traits, driver: surrounded(await spooling(t, opened.driver, traits), traits) }
  }
  /** A closed driver, for its methods and traits. */
  let closed: Driver | undefined
  const closedDriver = async () => {
    const { opened, driver } = await open()
    await driver.close?.()
    await opened.dispose()
    return driver
  }
  const run = async (
    title: string,
    work: (t: Test, subject: Subject) => Promise<void>,
    lacks?: (driver: Driver) => string | undefined,
  ): Promise<void> => {
    const reason = lacks?.((closed ??= await closedDriver()))
    if (reason !== undefined) {
      leftOut.set(reason, [...(leftOut.get(reason) ?? []), title])
      return
    }
    await t.test(title, async (t) => {
      const { opened, traits, driver } = await open()
      const { again, elsewhere, fetchDirectUrl, finishDownload } = opened
      try {
        await work(t, {
          driver: driver as WritableDriver,
          own: opened.driver,
          again: again && (async (uploads) => surrounded(await again(uploads), traits)),
          elsewhere,
          fetchDirectUrl,
          finishDownload,
          traits,
          many: candidate.many ?? 10_000,
          longestName: candidate.longestName ?? 255,
          cannotKeep: candidate.cannotKeep ?? (() => false),
        })
      } finally {
        await driver.close?.()
        await opened.dispose()
      }
    })
  }
  return run
}

/** The driver behind what a storage adds to its calls, without the limit of concurrent calls. */
function surrounded(driver: Driver, traits: Traits): Driver {
  return asDriver(newGuardedDriver(driver, { ...traits, parallel: Infinity }))
}

/** The driver as a storage writes to it: sources that lack what it needs are spooled, and hashed meanwhile. */
async function spooling(t: Test, driver: Driver, traits: Traits): Promise<Driver> {
  if (!driver.write || traits.writeNeeds !== 'reread') return driver
  const folder = await mkdtemp(join(tmpdir(), 'tidegate-conformance-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const spool = await Spool.open(folder, { instance: { name: 'run', isOver: () => true } })
  const write: WritableDriver['write'] = (path, source, options) =>
    sendAsNeeded(source, traits, spool, options?.signal, (sent) =>
      (driver as WritableDriver).write(path, sent, options),
    ).catch((error: unknown) => {
      throw toGatewayError(error)
    })
  return altered(driver, { write })
}

/** Skips a test if the driver lacks one of these methods. */
export function without(...methods: readonly (keyof Driver)[]) {
  return (driver: Driver): string | undefined => {
    const missing = methods.find((method) => driver[method] === undefined)
    return missing === undefined ? undefined : `this driver has no ${missing}()`
  }
}

export type Run = ReturnType<typeof subjects>
