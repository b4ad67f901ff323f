/**
 * The Alias driver: merges several paths of the tree. If a name exists in several of them, the earliest path takes
 * precedence.
 */
import type { Readable } from 'node:stream'
import { throwIfAborted } from '../../src/base/cancellation.js'
import type { Attributes, DirectUrl, DirectUrlOptions, Usage } from '../../src/contract/capabilities.js'
import type { ByteRange, CallOptions, Source, StatOptions, WriteOptions } from '../../src/contract/call-options.js'
import type { Driver } from '../../src/contract/driver.js'
import type { DriverEnv, TreeDriver } from '../../src/contract/driver-env.js'
import { pageSize, type Entry, type FileIdentity } from '../../src/contract/entry.js'
import { GatewayError, isGatewayError } from '../../src/base/errors.js'
import { childOf, nameOf, parentOf, root, segmentsOf, under, type Path } from '../../src/base/path.js'
import type { AliasOptions } from './index.js'
import { writeAll } from './write-all.js'
import { pickRandom, pickByFreeSpace, selectByPolicy, denied, namedPaths } from './options.js'

/** Policies that always select the same single storage for a file. */
const singleTargetPolicies: ReadonlySet<string> = new Set(['first', 'deterministic'])

/** Policies that select one of several storages for a new file. */
const distributingPolicies: ReadonlySet<string> = new Set(['random', 'quota', 'quota_strict'])

/** The storages that are merged under one name, in order of precedence. */
type Merged = readonly TreeDriver[]

/** The merged storages that a path maps to, and the path within each of them. */
interface Resolved {
  readonly merged: Merged
  readonly inner: Path
}

/** Where the writers of one new file put it: concurrent writers of one path must use the same storage. */
interface Placement {
  writers: number
  /** Undefined until the first of them has selected a storage. */
  driver: Promise<TreeDriver> | undefined
}

/** An existing entry, and the storage that contains it. */
interface Copy {
  readonly driver: TreeDriver
  readonly entry: Entry
}

/**
 * Opens the driver. It is read-only if both change policies are `disabled`. Throws `invalid` if the option `paths` is
 * invalid.
 */
export function openAlias(options: AliasOptions, env: DriverEnv): Driver {
  const named = new Map<string, Merged>()
  const all = namedPaths(options.paths)
  for (const [name, paths] of all) {
    const folder = all.size === 1 ? root : childOf(root, name)
    const drivers = paths.map((path) => env.tree(path, (member) => [under(folder, member)]))
    named.set(name, drivers)
  }
  const readOnly = options.write_conflict_policy === 'disabled' && options.put_conflict_policy === 'disabled'
  return readOnly ? new AliasDriver(named, options) : new WritableAliasDriver(named, options, env)
}

class AliasDriver implements Driver {
  /** The storages of the only top-level name, whose folder is then the root. Undefined if there are several names. */
  readonly #only: Merged | undefined
  /**
   * Present only for a single path with `details_pass_through`. Several paths may share a disk, so their usage cannot
   * be added.
   */
  readonly usage?: (options?: CallOptions) => Promise<Usage>

  constructor(
    private readonly named: ReadonlyMap<string, Merged>,
    protected readonly options: AliasOptions,
  ) {
    const [only] = named.values()
    this.#only = named.size === 1 ? only : undefined
    const [driver, ...others] = this.#only ?? []
    if (options.details_pass_through && driver && others.length === 0) this.usage = (call) => driver.usage(call)
  }

  async stat(path: Path, options: StatOptions = {}): Promise<Entry> {
    throwIfAborted(options.signal)
    const resolved = this.resolve(path)
    if (!resolved) return folderEntry('')
    const copy = await firstOf(resolved, options)
    if (!copy) throw new GatewayError('not_found')
    return resolved.inner === root ? { ...copy.entry, name: nameOf(path) } : copy.entry
  }

  async *pages(path: Path, options: CallOptions = {}): AsyncGenerator<readonly Entry[]> {
    throwIfAborted(options.signal)
    const resolved = this.resolve(path)
    if (!resolved) {
      yield [...this.named.keys()].map(folderEntry)
      return
    }
    const [first, ...others] = await allOf(resolved, options)
    if (!first) throw new GatewayError('not_found')
    if (first.entry.kind !== 'folder') throw new GatewayError('not_folder')
    const folders = [first, ...others.filter(({ entry }) => entry.kind === 'folder')]
    const names = new Set<string>()
    let page: Entry[] = []
    for (const { driver } of folders) {
      for await (const entries of driver.pages(resolved.inner, options)) {
        for (const entry of entries) {
          if (names.has(entry.name)) continue
          names.add(entry.name)
          page.push(entry)
          if (page.length < pageSize) continue
          yield page
          throwIfAborted(options.signal)
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

  async directUrl(path: Path, options: DirectUrlOptions = {}): Promise<DirectUrl> {
    const { driver, inner } = await this.#readable(path, options)
    return driver.directUrl(inner, options)
  }

  async #readable(path: Path, options: CallOptions): Promise<{ readonly driver: TreeDriver; readonly inner: Path }> {
    throwIfAborted(options.signal)
    const resolved = this.resolve(path)
    if (!resolved) throw new GatewayError('is_folder')
    const { inner } = resolved
    if (this.options.read_conflict_policy === 'first') {
      const copy = await firstOf(resolved, options)
      if (!copy) throw new GatewayError('not_found')
      return { driver: copy.driver, inner }
    }
    const [first, ...others] = await allOf(resolved, options)
    if (!first) throw new GatewayError('not_found')
    const { driver } = pickRandom([first, ...others.filter(({ entry }) => this.#isSame(first.entry, entry))])
    return { driver, inner }
  }

  /**
   * Whether two copies are interchangeable: ranges of one file may be read from any of them. Compares sizes, and hashes
   * if configured.
   */
  #isSame(one: Entry, other: Entry): boolean {
    if (one.kind !== other.kind || one.size !== other.size) return false
    if (!this.options.file_consistency_check) return true
    const known = new Map(Object.entries(other.hashes ?? {}))
    const hashes = Object.entries(one.hashes ?? {})
    return hashes.length > 0 && hashes.every(([name, hash]) => known.get(name) === hash)
  }

  async realPath(path: Path, options: CallOptions & { readonly last?: boolean | undefined } = {}): Promise<Path> {
    const resolved = this.resolve(path)
    if (!resolved || resolved.merged.length === 0) return path
    // A missing path is resolved by the storage that contains its nearest existing ancestor.
    let { inner } = resolved
    let copy = await firstOf(resolved, options)
    while (!copy && inner !== root) {
      inner = parentOf(inner)
      copy = await firstOf({ ...resolved, inner }, options)
    }
    if (!copy) return path
    const real = await copy.driver.realPath(resolved.inner, options)
    const name = this.#only ? root : childOf(root, segmentsOf(path)[0] ?? '')
    return segmentsOf(real).reduce<Path>(childOf, name)
  }

  async identities(path: Path, options: CallOptions = {}): Promise<readonly FileIdentity[]> {
    throwIfAborted(options.signal)
    const resolved = this.resolve(path)
    const copies = resolved ? await allOf(resolved, options) : []
    const found = await Promise.all(copies.map(({ driver }) => driver.identities(resolved?.inner ?? root, options)))
    return found.flat()
  }

  /** Resolves a path. Undefined for the root if it lists several names. For an unknown name, `merged` is empty. */
  protected resolve(path: Path): Resolved | undefined {
    if (this.#only) return { merged: this.#only, inner: path }
    const [name, ...rest] = segmentsOf(path)
    if (name === undefined) return undefined
    return { merged: this.named.get(name) ?? [], inner: rest.reduce<Path>(childOf, root) }
  }
}

/** Adds the changing operations. What the policies do not allow is rejected before anything is changed. */
class WritableAliasDriver extends AliasDriver {
  /** Absent if the policy may select several storages, or any of several. The core copies the content then. */
  readonly copy?: (from: Path, to: Path, options?: WriteOptions) => Promise<void>
  readonly #placements = new Map<Path, Placement>()

  constructor(
    named: ReadonlyMap<string, Merged>,
    options: AliasOptions,
    private readonly env: Pick<DriverEnv, 'log'>,
  ) {
    super(named, options)
    if (singleTargetPolicies.has(options.put_conflict_policy)) this.copy = (...call) => this.#copy(...call)
  }

  async write(path: Path, source: Source, options: WriteOptions = {}): Promise<Entry> {
    throwIfAborted(options.signal)
    // Before it is looked for: a file that is being written now is found, or its placement is.
    const placement = this.#placements.get(path) ?? { writers: 0, driver: undefined }
    this.#placements.set(path, placement)
    placement.writers++
    try {
      return await this.#write(path, source, placement, options)
    } finally {
      if (--placement.writers === 0) this.#placements.delete(path)
    }
  }

  async #write(path: Path, source: Source, placement: Placement, options: WriteOptions): Promise<Entry> {
    const { inner, drivers } = await this.#targets(path, source.size ?? 0, options, placement)
    const writes = drivers.map((driver) => (part: Source, writeOptions: WriteOptions) => {
      return driver.write(inner, part, writeOptions)
    })
    const [only, ...others] = writes
    if (!only) throw new GatewayError('parent_missing')
    return others.length === 0 ? only(source, options) : writeAll(writes, source, options)
  }

  async #copy(from: Path, to: Path, options: WriteOptions = {}): Promise<void> {
    throwIfAborted(options.signal)
    const source = this.resolve(from)
    const copy = source && (await firstOf(source, options))
    if (!source || copy?.entry.kind === 'folder') throw new GatewayError('is_folder')
    if (!copy) throw new GatewayError('not_found')
    const { inner, drivers } = await this.#targets(to, copy.entry.size, options)
    const [driver] = drivers
    // Between storages, the core copies the content.
    if (driver !== copy.driver) throw new GatewayError('unsupported')
    await driver.copy(source.inner, inner, options)
  }

  /** The storages to write a file to: those that contain it, or else those that contain its parent folder. */
  async #targets(
    path: Path,
    size: number,
    options: WriteOptions,
    placement: Pick<Placement, 'driver'> = { driver: undefined },
  ): Promise<{ inner: Path; drivers: readonly TreeDriver[] }> {
    const policy = this.options.put_conflict_policy
    const resolved = this.resolve(path)
    if (!resolved || resolved.inner === root) throw new GatewayError('is_folder')
    const { inner, merged } = resolved
    const copies = await allOf(resolved, options)
    if (copies[0]?.entry.kind === 'folder') throw new GatewayError('is_folder')
    if (copies.length > 0 && options.createOnly === true) throw new GatewayError('exists')
    const files = copies.filter(({ entry }) => entry.kind !== 'folder').map(({ driver }) => driver)
    const isDistributed = distributingPolicies.has(policy)
    if (files.length > 0) {
      // Reads return the first copy, so a single write must replace that one.
      return {
        inner,
        drivers: selectByPolicy(isDistributed ? 'first' : policy, { candidates: files, merged: merged.length }),
      }
    }
    const candidates = await parentsOf(resolved, options)
    if (!isDistributed) return { inner, drivers: selectByPolicy(policy, { candidates, merged: merged.length }) }
    const selection = (placement.driver ??=
      policy === 'random' ? Promise.resolve(pickRandom(candidates)) : this.#withFreeSpace(candidates, size, options))
    try {
      return { inner, drivers: [await selection] }
    } catch (error) {
      if (placement.driver === selection) placement.driver = undefined
      throw error
    }
  }

  async #withFreeSpace(candidates: readonly TreeDriver[], size: number, options: CallOptions): Promise<TreeDriver> {
    const known: { value: TreeDriver; free: number }[] = []
    const unmeasured: TreeDriver[] = []
    for (const driver of candidates) {
      // Each policy decides what to do with a storage that does not report it.
      const usage = await driver.usageOrUndefined(options)
      if (usage) known.push({ value: driver, free: usage.free })
      else unmeasured.push(driver)
    }
    const fitting = pickByFreeSpace(known, size)
    if (fitting) return fitting
    if (this.options.put_conflict_policy === 'quota' && unmeasured.length > 0) return pickRandom(unmeasured)
    throw new GatewayError('no_space', { reason: 'none of the merged paths has enough space' })
  }

  async mkdir(path: Path, options: CallOptions = {}): Promise<void> {
    throwIfAborted(options.signal)
    const resolved = this.resolve(path)
    if (!resolved || (await firstOf(resolved, { ...options, ofSymlink: true }))) throw new GatewayError('exists')
    const candidates = await parentsOf(resolved, options)
    await eachOf(this.#select(candidates, resolved), (driver) => driver.mkdir(resolved.inner, options))
  }

  async remove(path: Path, options: CallOptions = {}): Promise<void> {
    const { resolved, copies } = await this.#removable(path, options)
    if (copies[0]?.entry.kind === 'folder') {
      // Even if the selected copy is empty: the entries of the other copies would disappear from view.
      for await (const page of this.pages(path, options)) if (page.length > 0) throw new GatewayError('not_empty')
    }
    await this.#removeEach(copies, resolved, (driver) => driver.remove(resolved.inner, options))
  }

  async removeTree(path: Path, options: CallOptions = {}): Promise<void> {
    const { resolved, copies } = await this.#removable(path, options)
    await this.#removeEach(copies, resolved, (driver) => driver.removeTree(resolved.inner, options))
  }

  /** The visible copy is removed last: if another one cannot be removed, nothing has disappeared. */
  async #removeEach(
    copies: readonly Copy[],
    resolved: Resolved,
    remove: (driver: TreeDriver) => Promise<void>,
  ): Promise<void> {
    await eachOf(this.#selectCopies(copies, resolved).toReversed(), remove)
  }

  /**
   * Moves each copy that the policy selects within its storage. Rejects with `unsupported`, for a copy of the content,
   * where one of them lacks the target folder or another copy would hide the result.
   */
  async move(from: Path, to: Path, options: CallOptions = {}): Promise<void> {
    const { resolved, copies } = await this.#removable(from, options)
    const isFolder = copies[0]?.entry.kind === 'folder'
    const target = this.resolve(to)
    if (!target || target.inner === root) throw new GatewayError('is_folder')
    const drivers = this.#selectCopies(copies, resolved)
    const old = await allOf(target, { ...options, ofSymlink: true })
    const isSame = resolved.merged === target.merged && old.every(({ driver }) => drivers.includes(driver))
    if (old[0]?.entry.kind === 'folder' && !(isSame && old[0].entry.name === nameOf(from)))
      throw new GatewayError('is_folder')
    if (isFolder && old[0]?.entry.kind === 'file') throw new GatewayError('exists')
    const parents = await parentsOf(target, options)
    // Otherwise the moved file could be hidden by another copy, or its target folder is missing. The core copies it
    // then.
    if (!isSame || drivers.some((driver) => !parents.includes(driver))) throw new GatewayError('unsupported')
    const moved: TreeDriver[] = []
    try {
      await eachOf(drivers, async (driver) => {
        await driver.move(resolved.inner, target.inner, options)
        moved.push(driver)
      })
    } catch (error) {
      // Nothing was replaced: the copies that have moved return to their name.
      if (old.length === 0)
        for (const driver of moved) {
          await driver.move(target.inner, resolved.inner).catch((err: unknown) => {
            this.env.log.warn({ err, path: from, moved: to }, 'a copy cannot return to the name before a failed move')
          })
        }
      throw error
    }
  }

  async setAttributes(path: Path, to: Attributes, options: CallOptions = {}): Promise<void> {
    throwIfAborted(options.signal)
    const resolved = this.resolve(path)
    if (!resolved) throw new GatewayError('unsupported')
    const copies = await allOf(resolved, options)
    if (copies.length === 0) throw new GatewayError('not_found')
    await eachOf(this.#selectCopies(copies, resolved), (driver) => driver.setAttributes(resolved.inner, to, options))
  }

  async #removable(path: Path, options: CallOptions): Promise<{ resolved: Resolved; copies: readonly Copy[] }> {
    throwIfAborted(options.signal)
    const resolved = this.resolve(path)
    if (!resolved || resolved.inner === root) throw denied('the root folder cannot be moved or removed')
    const copies = await allOf(resolved, { ...options, ofSymlink: true })
    if (copies.length === 0) throw new GatewayError('not_found')
    return { resolved, copies }
  }

  #selectCopies(copies: readonly Copy[], resolved: Resolved): readonly TreeDriver[] {
    return this.#select(
      copies.map(({ driver }) => driver),
      resolved,
    )
  }

  #select(candidates: readonly TreeDriver[], { merged }: Resolved): readonly TreeDriver[] {
    return selectByPolicy(this.options.write_conflict_policy, { candidates, merged: merged.length })
  }
}

/**
 * The visible copy, which is the first. Rejects if an earlier storage fails, because it may contain the visible copy.
 */
async function firstOf({ merged, inner }: Resolved, options: StatOptions): Promise<Copy | undefined> {
  for (const driver of merged) {
    const copy = await copyIn(driver, inner, options)
    if (copy) return copy
  }
  return undefined
}

/** All copies in order of precedence. Sequential, so that a cycle of storages ends with the first error. */
async function allOf({ merged, inner }: Resolved, options: StatOptions): Promise<readonly Copy[]> {
  const copies: Copy[] = []
  for (const driver of merged) {
    const copy = await copyIn(driver, inner, options)
    if (copy) copies.push(copy)
  }
  return copies
}

async function copyIn(driver: TreeDriver, inner: Path, options: StatOptions): Promise<Copy | undefined> {
  try {
    return { driver, entry: await driver.stat(inner, options) }
  } catch (error) {
    if (isGatewayError(error, 'not_found', 'not_folder')) return undefined
    throw error
  }
}

/** The storages that contain the parent folder. Rejects with `parent_missing` or `not_folder`. */
async function parentsOf({ merged, inner }: Resolved, options: CallOptions): Promise<readonly TreeDriver[]> {
  const copies = await allOf({ merged, inner: parentOf(inner) }, options)
  const [first] = copies
  if (!first) throw new GatewayError('parent_missing')
  if (first.entry.kind !== 'folder') throw new GatewayError('not_folder')
  return copies.filter(({ entry }) => entry.kind === 'folder').map(({ driver }) => driver)
}

/**
 * Runs `work` for each driver. Rejects with `denied` instead of `unsupported` once one driver has succeeded: after
 * `unsupported` the core would run its fallback on all of them.
 */
async function eachOf(drivers: readonly TreeDriver[], work: (driver: TreeDriver) => Promise<void>): Promise<void> {
  let done = 0
  for (const driver of drivers) {
    try {
      await work(driver)
    } catch (error) {
      if (done === 0 || !isGatewayError(error, 'unsupported')) throw error
      throw denied('only some of the merged paths could be changed')
    }
    done++
  }
}

function folderEntry(name: string): Entry {
  return { name, kind: 'folder', size: 0, modified: new Date(0) }
}
