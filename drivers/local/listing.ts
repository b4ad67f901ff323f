/** The entries of a folder in pages, however many there are, without holding up anybody for more than 2 ms. */
import { opendirSync, type BigIntStats } from 'node:fs'
import { opendir } from 'node:fs/promises'
import { setImmediate as turn } from 'node:timers/promises'
import type { DriverLog, Entry, ListOptions } from '../../src/driver.js'
import { GatewayError, isGatewayError } from '../../src/errors.js'
import { childOf, isListableName, type Path } from '../../src/path.js'
import { immediateCalls, patientCalls } from './calls.js'
import { sameOrNew } from './entry.js'
import type { Folder } from './folder.js'
import { isReserved, type RootFolder } from './root-folder.js'

const pageSize = 1000
/** Milliseconds. */
const sliceTime = 2
/** Files that are asked for at once where an answer takes its time. */
const atOnce = 64

export interface ListingOptions {
  readonly showHidden: boolean
  readonly log: DriverLog
  readonly signal: AbortSignal | undefined
  /** The entry of a link or a folder, where its status does not say all. */
  readonly entry: (path: Path, name: string, stats: BigIntStats) => Promise<Entry>
  readonly known: ListOptions['known']
  /** Whether a folder's status does not say all. */
  readonly foldersToo: boolean
}

type Found = readonly [name: string, stats: BigIntStats]

export async function* listFolder(
  root: RootFolder,
  path: Path,
  options: ListingOptions,
): AsyncGenerator<readonly Entry[]> {
  const { known } = options
  const folder = await root.folder(path)
  try {
    const immediate = folder.calls.immediate && !root.hasOthersIn(folder.host)
    let page: Entry[] = []
    for await (const found of immediate ? slices(folder, options) : batches(folder, options)) {
      if (options.signal?.aborted) throw new GatewayError('aborted')
      for (const [name, stats] of found) {
        const more = stats.isSymbolicLink() || (options.foldersToo && stats.isDirectory())
        const entry = more ? await entryIfThere(options, path, name, stats) : sameOrNew(name, stats, known?.(name))
        if (entry) page.push(entry)
      }
      if (page.length < pageSize) continue
      assertStands(folder)
      for (; page.length >= pageSize; page = page.slice(pageSize)) yield page.slice(0, pageSize)
    }
    assertStands(folder)
    if (page.length > 0) yield page
  } finally {
    folder.close()
  }
}

/** Each name is looked up below the folder's path of the host, which is quicker than by its handle. So it must be the same folder still. */
function assertStands(folder: Folder): void {
  if (!folder.stands()) throw new GatewayError('not_found', { reason: 'the folder was moved while it was listed' })
}

async function entryIfThere(
  options: ListingOptions,
  path: Path,
  name: string,
  stats: BigIntStats,
): Promise<Entry | undefined> {
  try {
    return await options.entry(childOf(path, name), name, stats)
  } catch (error) {
    if (isGatewayError(error, 'not_found')) return undefined
    throw error
  }
}

async function* slices(folder: Folder, options: ListingOptions): AsyncGenerator<readonly Found[]> {
  const shown = nameFilter(options)
  const directory = opendirSync(folder.self, { bufferSize: 256 })
  try {
    const prefix = folder.host === '/' ? '/' : `${folder.host}/`
    for (let ended = false; !ended;) {
      const found: Found[] = []
      for (const end = performance.now() + sliceTime; found.length < pageSize && performance.now() < end;) {
        const name = directory.readSync()?.name
        ended = name === undefined
        if (name === undefined) break
        if (!shown(name)) continue
        const stats = immediateCalls.lstat(prefix + name) as BigIntStats | undefined
        if (stats) found.push([name, stats])
      }
      yield found
      if (!ended) await turn()
    }
  } finally {
    directory.closeSync()
  }
}

async function* batches(folder: Folder, options: ListingOptions): AsyncGenerator<readonly Found[]> {
  const shown = nameFilter(options)
  const look = async (name: string): Promise<Found[]> => {
    const stats = await patientCalls.lstat(folder.at(name))
    return stats ? [[name, stats]] : []
  }
  let names: string[] = []
  for await (const { name } of await opendir(folder.self, { bufferSize: atOnce })) {
    if (shown(name)) names.push(name)
    if (names.length < atOnce) continue
    yield (await Promise.all(names.map(look))).flat()
    names = []
  }
  yield (await Promise.all(names.map(look))).flat()
}

function nameFilter({ showHidden, log }: ListingOptions): (name: string) => boolean {
  let told = false
  return (name) => {
    if (!isListableName(name)) {
      if (!told) log.warn({ name }, 'names that cannot be asked for again are left out of a listing')
      told = true
      return false
    }
    return !name.startsWith('.') || (showHidden && !isReserved(name))
  }
}
