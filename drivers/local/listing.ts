/** The entries of a folder in pages, however many there are, without holding up anybody for more than 2 ms. */
import { constants, opendirSync, type BigIntStats } from 'node:fs'
import { opendir } from 'node:fs/promises'
import { setImmediate as turn } from 'node:timers/promises'
import type { Entry, ListOptions } from '../../src/driver.js'
import { GatewayError, isGatewayError } from '../../src/errors.js'
import { childOf, isListableName, type Path } from '../../src/path.js'
import { immediateCalls, patientCalls } from './calls.js'
import { kindOf, sameOrNew, statusOf, type Status } from './entry.js'
import type { Folder } from './folder.js'
import { numbersPerName, type LookAnswer } from './orders.js'
import { isReserved, type RootFolder } from './root-folder.js'
import { secondThread, type SecondThread } from './second-thread.js'

const pageSize = 1000
/** Milliseconds. */
const sliceTime = 2
/** Names that another thread is asked for at once. */
const sharedAtOnce = 400
/** Files that are asked for at once where an answer takes its time. */
const atOnce = 64

export interface ListingOptions {
  readonly showHidden: boolean
  readonly signal: AbortSignal | undefined
  /** The entry of a link or a folder, where its status does not say all. */
  readonly entry: (path: Path, name: string, status: Status) => Promise<Entry>
  readonly known: ListOptions['known']
  /** Whether a folder's status does not say all. */
  readonly foldersToo: boolean
}

type Found = readonly [name: string, status: Status]

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
      for (const [name, status] of found) {
        const kind = kindOf(status.mode)
        const more = kind === 'link' || (options.foldersToo && kind === 'folder')
        const entry = more ? await entryIfThere(options, path, name, status) : sameOrNew(name, status, known?.(name))
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
  status: Status,
): Promise<Entry | undefined> {
  try {
    return await options.entry(childOf(path, name), name, status)
  } catch (error) {
    if (isGatewayError(error, 'not_found')) return undefined
    throw error
  }
}

async function* slices(folder: Folder, options: ListingOptions): AsyncGenerator<readonly Found[]> {
  const names = namesIn(folder, options)
  const prefix = folder.host === '/' ? '/' : `${folder.host}/`
  const asked = new Set<Promise<void>>()
  let arrived: Found[] = []
  let seen = 0
  try {
    for (let ended = false; !ended;) {
      // A large folder is worth another thread. What it is at work on when the last name has come, all wait for: so that is not much.
      const thread = seen > pageSize ? secondThread() : undefined
      while (thread && asked.size < 2) {
        const part = taken(names, sharedAtOnce)
        if (part.length === 0) break
        const answer: Promise<void> = lookedUpBy(thread, prefix, part).then((found) => {
          arrived.push(...found)
          asked.delete(answer)
        })
        asked.add(answer)
      }
      const found = arrived
      arrived = []
      for (const end = performance.now() + sliceTime; found.length < pageSize && performance.now() < end;) {
        const { value: name } = names.next()
        ended = name === undefined
        if (name === undefined) break
        found.push(...lookedUp(prefix, name))
      }
      seen += found.length
      yield found
      if (!ended) await turn()
    }
    await Promise.all(asked)
    yield arrived
  } finally {
    names.return(undefined)
  }
}

function* namesIn(folder: Folder, options: ListingOptions): Generator<string, undefined> {
  const shown = nameFilter(options)
  const directory = opendirSync(folder.self, { bufferSize: 256 })
  try {
    for (let entry = directory.readSync(); entry; entry = directory.readSync()) if (shown(entry.name)) yield entry.name
    return undefined
  } finally {
    directory.closeSync()
  }
}

function taken(names: Iterator<string, undefined>, count: number): readonly string[] {
  const part: string[] = []
  while (part.length < count) {
    const { value: name } = names.next()
    if (name === undefined) break
    part.push(name)
  }
  return part
}

/** Of a file whose name is not UTF-8: no call finds it by the text that stands for it. */
const unreadable: Status = { revision: '', mode: constants.S_IFREG, size: 0, modified: 0, created: 0 }

function foundAs(name: string, stats: BigIntStats | undefined): readonly Found[] {
  if (stats) return [[name, statusOf(stats)]]
  return isListableName(name) ? [] : [[name, unreadable]]
}

function lookedUp(prefix: string, name: string): readonly Found[] {
  return foundAs(name, immediateCalls.lstat(prefix + name) as BigIntStats | undefined)
}

async function lookedUpBy(thread: SecondThread, prefix: string, names: readonly string[]): Promise<readonly Found[]> {
  const answer = await thread.ask('look', { prefix, names: names.join('\0') })
  const told = answer && statuses(answer)
  return names.flatMap((name, index): readonly Found[] => {
    const status = told?.[index]
    return status ? [[name, status]] : lookedUp(prefix, name)
  })
}

function statuses({ revisions, numbers }: LookAnswer): readonly (Status | undefined)[] {
  return revisions.split('\0').map((revision, index) => {
    if (revision === '') return undefined
    const at = index * numbersPerName
    return {
      revision,
      mode: numbers[at] ?? 0,
      size: numbers[at + 1] ?? 0,
      modified: numbers[at + 2] ?? 0,
      created: numbers[at + 3] ?? 0,
    }
  })
}

async function* batches(folder: Folder, options: ListingOptions): AsyncGenerator<readonly Found[]> {
  const shown = nameFilter(options)
  const look = async (name: string) => foundAs(name, await patientCalls.lstat(folder.at(name)))
  let names: string[] = []
  for await (const { name } of await opendir(folder.self, { bufferSize: atOnce })) {
    if (shown(name)) names.push(name)
    if (names.length < atOnce) continue
    yield (await Promise.all(names.map(look))).flat()
    names = []
  }
  yield (await Promise.all(names.map(look))).flat()
}

function nameFilter({ showHidden }: ListingOptions): (name: string) => boolean {
  return (name) => !name.startsWith('.') || (showHidden && !isReserved(name))
}
