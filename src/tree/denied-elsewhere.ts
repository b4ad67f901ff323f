/**
 * Storages that show, at another path, what a grant denies: a grant is about a path, and not about a file. They are
 * known by their options, without opening one. Paths are of the whole tree.
 */
import { resolve } from 'node:path/posix'
import { asPath, cleanPath, isWithin, root, under, within, type Path } from '../base/path.js'
import type { Right } from '../base/rights.js'
import type { DriverDescription, Field } from '../contract/driver-type.js'
import type { Grant } from '../database/tables/grants.js'
import type { StorageRow } from '../database/tables/storages.js'
import { checkOptions, parseAddition } from '../mounts/fields.js'
import { visiblePath } from '../mounts/mounts.js'
import { subjectOfGrant, type Grants } from './grants.js'

/** A place where a storage shows what a grant denies, and the grant does not hold. */
export interface ShownElsewhere {
  readonly grant: Grant
  /** The path of what is denied. If names differ in the storage, it may also be above or below this path. */
  readonly path: Path
  readonly driver: string
  readonly mountPoint: Path
}

/**
 * The places of what `denials` deny. A place does not count where a grant of the same user or group denies the same, or
 * where one with its very path says that it need not. `storages`: all; those that are disabled, or whose options cannot
 * be read, show nothing.
 */
export function* shownElsewhere(
  denials: readonly Grant[],
  grants: Pick<Grants, 'of'>,
  storages: readonly StorageRow[],
  driverTypes: readonly DriverDescription[],
): Generator<ShownElsewhere> {
  const shown = storages.flatMap((row) => shownBy(row, driverTypes) ?? [])
  for (const grant of denials) {
    if (grant.deny.length === 0) continue
    const own = grants.of(subjectOfGrant(grant))
    for (const [path, { driver, mountPoint }] of placesOf(grant.path, shown)) {
      if (!isSettled(grant, path, own)) yield { grant, path, driver, mountPoint }
    }
  }
}

/** Whether the grants of the same subject say at a place what is denied elsewhere. */
function isSettled({ deny }: Grant, place: Path, own: readonly Grant[]): boolean {
  const denies = (right: Right) =>
    own.some((other) => isWithin(other.path, place) && (other.deny.includes(right) || other.deny.includes('see')))
  return own.some(({ path }) => path === place) || deny.every(denies)
}

/** The folders that a storage shows. */
interface Shown {
  readonly driver: string
  readonly mountPoint: Path
  /** Paths of the tree, and where in the storage they appear. */
  readonly folders: readonly { readonly path: Path; readonly at: Path | undefined }[]
  /** The folder of a backend; undefined if the files are those of other storages. */
  readonly backend: { readonly account: string; readonly folder: Path } | undefined
}

/** The option that names the folder of a backend that a storage shows. */
const rootField = 'root_folder_path'
/** Types of the options that say whose files these are. */
const texts: ReadonlySet<Field['type']> = new Set<Field['type']>(['string', 'text', 'select'])

function shownBy(row: StorageRow, driverTypes: readonly DriverDescription[]): Shown | undefined {
  const type = driverTypes.find(({ name }) => name === row.driver)
  if (row.disabled || type === undefined) return undefined
  try {
    const options = checkOptions(type.fields, parseAddition(row.addition))
    const base = { driver: row.driver, mountPoint: visiblePath(row.mountPath) }
    if (type.shows !== undefined) return { ...base, folders: type.shows(options), backend: undefined }
    // The fields that a storage needs to reach its files identify these files.
    const identifying = Object.entries(type.fields)
      .filter(([name, { required, type: kind }]) => name !== rootField && required === true && texts.has(kind))
      .map(([name]) => [name, options[name]])
    const account = JSON.stringify([row.driver, identifying])
    const folder = asPath(cleanPath(resolve('/', options[rootField] ?? '')))
    return { ...base, folders: [], backend: { account, folder } }
  } catch {
    return undefined
  }
}

/** The paths outside `denied` at which storages show something of it, each with the first storage that does. */
function placesOf(denied: Path, shown: readonly Shown[]): ReadonlyMap<Path, Shown> {
  const found = new Map<Path, Shown>()
  const asked = new Set<Shown>()
  const queue = [denied]
  for (const path of queue) {
    for (const storage of shown) {
      const places = asked.has(storage) ? [] : placesIn(storage, path, shown)
      for (const place of places.filter((each) => !isWithin(denied, each))) {
        // An Alias of an Alias may show the first one.
        asked.add(storage)
        found.set(place, found.get(place) ?? storage)
        queue.push(place)
      }
    }
  }
  return found
}

/** Returns the places where a storage shows the entry at `path`; none if `path` is in the storage itself. */
function placesIn({ mountPoint, folders, backend }: Shown, path: Path, shown: readonly Shown[]): readonly Path[] {
  if (isWithin(mountPoint, path)) return []
  const ofTree = folders.flatMap((folder) => shownAt(folder.path, path, folder.at) ?? [])
  const same = backend === undefined ? [] : foldersOf(path, backend.account, shown)
  const ofBackend = same.flatMap((folder) => (backend && shownAt(backend.folder, folder, root)) ?? [])
  return [...ofTree, ...ofBackend].map((at) => under(mountPoint, at))
}

/**
 * Returns the place of `path`, or of a part of it, in a storage that shows `folder` at `at`. If `at` is undefined,
 * names differ there, and the place is the whole storage. Undefined if the storage shows no part of `path`.
 */
function shownAt(folder: Path, path: Path, at: Path | undefined): Path | undefined {
  const below = within(folder, path)
  if (below !== undefined) return at === undefined ? root : under(at, below)
  return isWithin(path, folder) ? (at ?? root) : undefined
}

/** The folders of a backend's account that are at `path` or below it. */
function foldersOf(path: Path, account: string, shown: readonly Shown[]): readonly Path[] {
  const holding = shown.filter(({ mountPoint }) => isWithin(mountPoint, path))
  const nearest = Math.max(...holding.map(({ mountPoint }) => mountPoint.length))
  return shown.flatMap(({ mountPoint, backend }) => {
    if (backend?.account !== account) return []
    if (isWithin(path, mountPoint)) return [backend.folder]
    const below = mountPoint.length === nearest ? within(mountPoint, path) : undefined
    return below === undefined ? [] : [under(backend.folder, below)]
  })
}
