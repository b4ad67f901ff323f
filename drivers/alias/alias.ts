/** Several paths of the tree as one. What an earlier path has stands before what a later one has under the same name. */
import type { Readable } from 'node:stream'
import { assertGoing } from '../../src/aborting.js'
import type {
  Attributes,
  ByteRange,
  CallOptions,
  Driver,
  DriverEnv,
  Entry,
  Identity,
  Link,
  Source,
  Usage,
  WriteOptions,
} from '../../src/driver.js'
import { GatewayError, isGatewayError } from '../../src/errors.js'
import { childOf, isWithin, nameOf, parentOf, root, segmentsOf, type Path } from '../../src/path.js'
import type { AliasOptions } from './index.js'
import { namedPaths } from './paths.js'
import { anyOf, byFreeSpace, chosen, refused } from './policies.js'
import { writeAll } from './write-all.js'

/** Entries in one page of a listing. */
const pageSize = 1000

/** Policies by which a file always goes to the same single storage. */
const steady: ReadonlySet<string> = new Set(['first', 'deterministic'])

/** Policies by which a new file goes to any one of several. */
const scattering: ReadonlySet<string> = new Set(['random', 'quota', 'quota_strict'])

/** Storages that are merged under one name. */
type Merged = readonly Driver[]

/** A path of ours as those see it that may have it. */
interface Where {
  readonly merged: Merged
  readonly inner: Path
}

/** Something that is there, and which storage has it. */
interface Copy {
  readonly driver: Driver
  readonly entry: Entry
}

/** A driver that changes things only where one of the policies allows it. Rejects with `invalid` where no path is given. */
export function openAlias(options: AliasOptions, env: DriverEnv): Driver {
  const named = new Map<string, Merged>()
  for (const [name, paths] of namedPaths(options.paths))
    named.set(
      name,
      paths.map((path) => env.tree(path)),
    )
  const readOnly = options.write_conflict_policy === 'disabled' && options.put_conflict_policy === 'disabled'
  return readOnly ? new AliasDriver(named, options) : new WritableAliasDriver(named, options)
}

export class AliasDriver implements Driver {
  /** The only name, under which nothing has to be looked for. */
  readonly #only: Merged | undefined
  /** Of a single path, where that is asked for: several may well be on one disk. */
  readonly usage?: (options?: CallOptions) => Promise<Usage>

  constructor(
    private readonly named: ReadonlyMap<string, Merged>,
    protected readonly options: AliasOptions,
  ) {
    const [only] = named.values()
    this.#only = named.size === 1 ? only : undefined
    const [driver, ...others] = this.#only ?? []
    if (options.details_pass_through && driver && others.length === 0) {
      this.usage = async (call) => {
        if (!driver.usage) throw new GatewayError('unsupported')
        return driver.usage(call)
      }
    }
  }

  async stat(path: Path, options: CallOptions & { readonly link?: boolean | undefined } = {}): Promise<Entry> {
    assertGoing(options.signal)
    const where = this.where(path)
    if (!where) return folderEntry('')
    const copy = await firstOf(where, options)
    if (!copy) throw new GatewayError('not_found')
    return where.inner === root ? { ...copy.entry, name: nameOf(path) } : copy.entry
  }

  async *list(path: Path, options: CallOptions = {}): AsyncGenerator<readonly Entry[]> {
    assertGoing(options.signal)
    const where = this.where(path)
    if (!where) {
      yield [...this.named.keys()].map(folderEntry)
      return
    }
    const [first, ...others] = await allOf(where, options)
    if (!first) throw new GatewayError('not_found')
    if (first.entry.kind !== 'folder') throw new GatewayError('not_dir')
    const folders = [first, ...others.filter(({ entry }) => entry.kind === 'folder')]
    const seen = new Set<string>()
    let page: Entry[] = []
    for (const { driver } of folders) {
      for await (const entries of driver.list(where.inner, options)) {
        for (const entry of entries) {
          if (seen.has(entry.name)) continue
          seen.add(entry.name)
          page.push(entry)
          if (page.length < pageSize) continue
          yield page
          assertGoing(options.signal)
          page = []
        }
      }
    }
    if (page.length > 0) yield page
  }

  async read(path: Path, range?: ByteRange, options: CallOptions = {}): Promise<Readable> {
    const { driver, inner } = await this.#readable(path, options)
    return driver.read(inner, range, options)
  }

  async link(path: Path, options: CallOptions = {}): Promise<Link> {
    const { driver, inner } = await this.#readable(path, options)
    if (!driver.link) throw new GatewayError('unsupported')
    return driver.link(inner, options)
  }

  async #readable(path: Path, options: CallOptions): Promise<{ readonly driver: Driver; readonly inner: Path }> {
    assertGoing(options.signal)
    const where = this.where(path)
    if (!where) throw new GatewayError('is_dir')
    const { inner } = where
    if (this.options.read_conflict_policy === 'first') {
      const copy = await firstOf(where, options)
      if (!copy) throw new GatewayError('not_found')
      return { driver: copy.driver, inner }
    }
    const [first, ...others] = await allOf(where, options)
    if (!first) throw new GatewayError('not_found')
    const { driver } = anyOf([first, ...others.filter(({ entry }) => this.#isSame(first.entry, entry))])
    return { driver, inner }
  }

  /** Ranges of one file may come from any of its copies, so another size is another file. */
  #isSame(one: Entry, other: Entry): boolean {
    if (one.kind !== other.kind || one.size !== other.size) return false
    if (!this.options.file_consistency_check) return true
    const known = new Map(Object.entries(other.hashes ?? {}))
    const hashes = Object.entries(one.hashes ?? {})
    return hashes.length > 0 && hashes.every(([name, hash]) => known.get(name) === hash)
  }

  async realPath(path: Path, options: CallOptions & { readonly last?: boolean | undefined } = {}): Promise<Path> {
    const where = this.where(path)
    if (!where || where.merged.length === 0) return path
    // What is not there yet lies where the folder is that will hold it.
    let { inner } = where
    let copy = await firstOf(where, options)
    while (!copy && inner !== root) {
      inner = parentOf(inner)
      copy = await firstOf({ ...where, inner }, options)
    }
    const real = await copy?.driver.realPath?.(where.inner, options)
    if (real === undefined) return path
    const name = this.#only ? root : childOf(root, segmentsOf(path)[0] ?? '')
    return segmentsOf(real).reduce<Path>(childOf, name)
  }

  async identities(path: Path, options: CallOptions = {}): Promise<readonly Identity[]> {
    assertGoing(options.signal)
    const where = this.where(path)
    const copies = where ? await allOf(where, options) : []
    const found = await Promise.all(
      copies.map(async ({ driver }) => driver.identities?.(where?.inner ?? root, options)),
    )
    return found.flatMap((each) => each ?? [])
  }

  /** Undefined for the folder that only shows the names. Nothing is merged under a name that is none. */
  protected where(path: Path): Where | undefined {
    if (this.#only) return { merged: this.#only, inner: path }
    const [name, ...rest] = segmentsOf(path)
    if (name === undefined) return undefined
    return { merged: this.named.get(name) ?? [], inner: rest.reduce<Path>(childOf, root) }
  }
}

/** All that changes something; what the policies turn off is refused before anything is done. */
export class WritableAliasDriver extends AliasDriver {
  /** Absent where a file may go to several storages, or to any one: the core copies it then. */
  readonly copy?: (from: Path, to: Path, options?: WriteOptions) => Promise<void>
  /** Absent where files are scattered, so that one may have to go to where another lies. */
  readonly move?: (from: Path, to: Path, options?: CallOptions) => Promise<void>
  /** Where new files go that are on their way: who writes the same one meanwhile writes it there, and not a second one. */
  readonly #placed = new Map<Path, Promise<Driver>>()

  constructor(named: ReadonlyMap<string, Merged>, options: AliasOptions) {
    super(named, options)
    if (steady.has(options.put_conflict_policy)) this.copy = (...call) => this.#copy(...call)
    if (!scattering.has(options.put_conflict_policy)) this.move = (...call) => this.#move(...call)
  }

  async write(path: Path, source: Source, options: WriteOptions = {}): Promise<Entry> {
    assertGoing(options.signal)
    const { inner, drivers } = await this.#targets(path, source.size ?? 0, options)
    const writes = drivers.map((driver) => async (from: Source, how: WriteOptions) => {
      if (!driver.write) throw new GatewayError('unsupported')
      return driver.write(inner, from, how)
    })
    const [only, ...others] = writes
    if (!only) throw new GatewayError('parent_missing')
    const placed = this.#placed.get(path)
    try {
      return await (others.length === 0 ? only(source, options) : writeAll(writes, source, options))
    } finally {
      if (placed === this.#placed.get(path)) this.#placed.delete(path)
    }
  }

  async #copy(from: Path, to: Path, options: WriteOptions = {}): Promise<void> {
    assertGoing(options.signal)
    const source = this.where(from)
    const copy = source && (await firstOf(source, options))
    if (!source || copy?.entry.kind === 'folder') throw new GatewayError('is_dir')
    if (!copy) throw new GatewayError('not_found')
    const { inner, drivers } = await this.#targets(to, copy.entry.size, options)
    const [driver] = drivers
    // Between storages the core copies.
    if (driver !== copy.driver || !driver.copy) throw new GatewayError('unsupported')
    await driver.copy(source.inner, inner, options)
  }

  /** Where a file is to be written: over its copies, or into the folders that are there. */
  async #targets(
    path: Path,
    size: number,
    options: WriteOptions,
  ): Promise<{ inner: Path; drivers: readonly Driver[] }> {
    const policy = this.options.put_conflict_policy
    const where = this.where(path)
    if (!where || where.inner === root) throw new GatewayError('is_dir')
    const { inner, merged } = where
    const copies = await allOf(where, options)
    if (copies[0]?.entry.kind === 'folder') throw new GatewayError('is_dir')
    if (copies.length > 0 && options.createOnly === true) throw new GatewayError('exists')
    const files = copies.filter(({ entry }) => entry.kind !== 'folder').map(({ driver }) => driver)
    const oneOfMany = scattering.has(policy)
    if (files.length > 0) {
      // What is written must be what is read next: the first copy is the one that is seen.
      return { inner, drivers: chosen(oneOfMany ? 'first' : policy, { there: files, merged: merged.length }) }
    }
    const there = await parentsOf(where, options)
    if (!oneOfMany) return { inner, drivers: chosen(policy, { there, merged: merged.length }) }
    const placing =
      this.#placed.get(path) ??
      (policy === 'random' ? Promise.resolve(anyOf(there)) : this.#roomiest(there, size, options))
    this.#placed.set(path, placing)
    try {
      return { inner, drivers: [await placing] }
    } catch (error) {
      this.#placed.delete(path)
      throw error
    }
  }

  async #roomiest(there: readonly Driver[], size: number, options: CallOptions): Promise<Driver> {
    const known: { value: Driver; free: number }[] = []
    const silent: Driver[] = []
    for (const driver of there) {
      const usage = await usageOf(driver, options)
      if (usage) known.push({ value: driver, free: usage.free })
      else silent.push(driver)
    }
    const fitting = byFreeSpace(known, size)
    if (fitting) return fitting
    if (this.options.put_conflict_policy === 'quota' && silent.length > 0) return anyOf(silent)
    throw new GatewayError('no_space', { reason: 'none of the merged paths has enough space' })
  }

  async mkdir(path: Path, options: CallOptions = {}): Promise<void> {
    assertGoing(options.signal)
    const where = this.where(path)
    if (!where || (await firstOf(where, { ...options, link: true }))) throw new GatewayError('exists')
    const there = await parentsOf(where, options)
    await eachOf(this.#chosen(there, where), async (driver) => driver.mkdir?.(where.inner, options))
  }

  async remove(path: Path, options: CallOptions = {}): Promise<void> {
    const { where, copies } = await this.#removable(path, options)
    if (copies[0]?.entry.kind === 'folder') {
      // Also where the copy that goes is empty: what another one holds would be taken for gone.
      for await (const page of this.list(path, options)) if (page.length > 0) throw new GatewayError('not_empty')
    }
    await eachOf(this.#chosenCopies(copies, where), async (driver) => driver.remove?.(where.inner, options))
  }

  async removeTree(path: Path, options: CallOptions = {}): Promise<void> {
    const { where, copies } = await this.#removable(path, options)
    await eachOf(this.#chosenCopies(copies, where), async (driver) => {
      if (!driver.removeTree) throw new GatewayError('unsupported')
      await driver.removeTree(where.inner, options)
    })
  }

  async #move(from: Path, to: Path, options: CallOptions = {}): Promise<void> {
    const { where, copies } = await this.#removable(from, options)
    const isFolder = copies[0]?.entry.kind === 'folder'
    if (from === to) return
    const target = this.where(to)
    if (isFolder && isWithin(from, to))
      throw new GatewayError('invalid', { reason: 'a folder cannot be moved into itself' })
    if (!target || target.inner === root) throw new GatewayError('is_dir')
    const drivers = this.#chosenCopies(copies, where)
    const old = await allOf(target, { ...options, link: true })
    const isSame = where.merged === target.merged && old.every(({ driver }) => drivers.includes(driver))
    if (old[0]?.entry.kind === 'folder' && !(isSame && old[0].entry.name === nameOf(from)))
      throw new GatewayError('is_dir')
    if (isFolder && old[0]?.entry.kind === 'file') throw new GatewayError('exists')
    const parents = await parentsOf(target, options)
    // Anywhere else the file would come to lie under another one, or in no folder: the core copies it then.
    if (!isSame || drivers.some((driver) => !parents.includes(driver) || !driver.move)) {
      throw new GatewayError('unsupported')
    }
    await eachOf(drivers, async (driver) => driver.move?.(where.inner, target.inner, options))
  }

  async setAttributes(path: Path, to: Attributes, options: CallOptions = {}): Promise<void> {
    assertGoing(options.signal)
    const where = this.where(path)
    if (!where) throw new GatewayError('unsupported')
    const copies = await allOf(where, options)
    if (copies.length === 0) throw new GatewayError('not_found')
    await eachOf(this.#chosenCopies(copies, where), async (driver) => {
      if (!driver.setAttributes) throw new GatewayError('unsupported')
      await driver.setAttributes(where.inner, to, options)
    })
  }

  async #removable(path: Path, options: CallOptions): Promise<{ where: Where; copies: readonly Copy[] }> {
    assertGoing(options.signal)
    const where = this.where(path)
    if (!where || where.inner === root) throw refused('the root of a storage stays')
    const copies = await allOf(where, { ...options, link: true })
    if (copies.length === 0) throw new GatewayError('not_found')
    return { where, copies }
  }

  #chosenCopies(copies: readonly Copy[], where: Where): readonly Driver[] {
    return this.#chosen(
      copies.map(({ driver }) => driver),
      where,
    )
  }

  #chosen(there: readonly Driver[], { merged }: Where): readonly Driver[] {
    return chosen(this.options.write_conflict_policy, { there, merged: merged.length })
  }
}

type StatOptions = CallOptions & { readonly link?: boolean | undefined }

/** The copy that is seen. Where an earlier storage does not answer nobody knows which that is, so its error is told. */
async function firstOf({ merged, inner }: Where, options: StatOptions): Promise<Copy | undefined> {
  for (const driver of merged) {
    const copy = await copyIn(driver, inner, options)
    if (copy) return copy
  }
  return undefined
}

/** One after the other: in a circle of storages the first error ends it. */
async function allOf({ merged, inner }: Where, options: StatOptions): Promise<readonly Copy[]> {
  const copies: Copy[] = []
  for (const driver of merged) {
    const copy = await copyIn(driver, inner, options)
    if (copy) copies.push(copy)
  }
  return copies
}

async function copyIn(driver: Driver, inner: Path, options: StatOptions): Promise<Copy | undefined> {
  try {
    return { driver, entry: await driver.stat(inner, options) }
  } catch (error) {
    if (isGatewayError(error, 'not_found', 'not_dir')) return undefined
    throw error
  }
}

/** Those that have the folder above. */
async function parentsOf({ merged, inner }: Where, options: CallOptions): Promise<readonly Driver[]> {
  const copies = await allOf({ merged, inner: parentOf(inner) }, options)
  const [first] = copies
  if (!first) throw new GatewayError('parent_missing')
  if (first.entry.kind !== 'folder') throw new GatewayError('not_dir')
  return copies.filter(({ entry }) => entry.kind === 'folder').map(({ driver }) => driver)
}

/** What one refuses as `unsupported` after another did it is no thing that can be done in a slower way. */
async function eachOf(drivers: readonly Driver[], work: (driver: Driver) => Promise<void>): Promise<void> {
  let done = 0
  for (const driver of drivers) {
    try {
      await work(driver)
    } catch (error) {
      if (done === 0 || !isGatewayError(error, 'unsupported')) throw error
      throw refused('only some of the merged paths could be changed')
    }
    done++
  }
}

async function usageOf(driver: Driver, options: CallOptions): Promise<Usage | undefined> {
  try {
    return await driver.usage?.(options)
  } catch (error) {
    if (isGatewayError(error, 'unsupported')) return undefined
    throw error
  }
}

function folderEntry(name: string): Entry {
  return { name, kind: 'folder', size: 0, modified: new Date(0) }
}
