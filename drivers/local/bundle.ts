/**
 * Small files of one folder copied into another one at once, by the second thread: each is written aside, and takes its name when the
 * caller says that it may (docs/decisions/0016).
 */
import { assertGoing } from '../../src/aborting.js'
import type { CallOptions, Entry, FileBundle } from '../../src/driver.js'
import { GatewayError } from '../../src/errors.js'
import type { Path } from '../../src/path.js'
import { entryFrom, systemTime } from './entry.js'
import type { Folder } from './folder.js'
import { work } from './orders.js'
import { isReserved, type RootFolder } from './root-folder.js'
import { secondThread, startedThread, type SecondThread } from './second-thread.js'
import type { Room, Staging } from './staging.js'

/** Files from which on they wait for the thread to start. */
const worthWaiting = 32

export interface BundleEnds {
  readonly source: RootFolder
  readonly target: RootFolder
  /** Of the target. */
  readonly staging: Staging
}

/** A file that has a place to be written to. */
interface Member {
  readonly name: string
  readonly staged: string
  readonly entry: Entry
  readonly revision: string
}

type Made = ReadonlyMap<string, Entry>

/** As `Driver.copyFiles` promises. */
export async function copyBundle(
  { source, target, staging }: BundleEnds,
  bundle: FileBundle,
  { signal }: CallOptions,
): Promise<readonly (Entry | undefined)[]> {
  const thread = bundle.files.length < worthWaiting ? secondThread() : await startedThread()
  if (!thread) throw new GatewayError('unsupported')
  const made = await using(source, bundle.from, (from) =>
    using(target, bundle.to, (to) =>
      staging.together(to, signal, async (room) => {
        const members = membersOf(bundle, room)
        const whole = await staged(thread, from, room, members)
        return published(thread, target, room, bundle, whole)
      }),
    ),
  )
  if (!made) throw new GatewayError('unsupported')
  return bundle.files.map(({ name }) => made.get(name))
}

/** Runs `work` with a folder of a local disk that is open meanwhile. */
async function using<T>(root: RootFolder, path: Path, work: (folder: Folder) => Promise<T>): Promise<T> {
  const folder = await root.folder(path)
  try {
    if (!root.isPlain(folder.host) || root.hasOthersIn(folder.host)) throw new GatewayError('unsupported')
    return await work(folder)
  } finally {
    folder.close()
  }
}

function membersOf({ files }: FileBundle, { newName }: Room): readonly Member[] {
  return files.flatMap((entry) => {
    const { name, revision, kind, isLink } = entry
    if (kind !== 'file' || isLink === true || revision === undefined || isReserved(name)) return []
    return [{ name, staged: newName(), entry, revision }]
  })
}

/** Those of which all bytes are there. */
async function staged(
  thread: SecondThread,
  from: Folder,
  { folder }: Room,
  members: readonly Member[],
): Promise<readonly Member[]> {
  const files = members.map(({ name, staged, revision, entry: { size, mode, modified } }) => {
    return { name, staged, revision, size, mode, modified: systemTime(modified) }
  })
  const staging = folder.at('')
  const whole = await thread.ask('stage', { from: from.at(''), staging, files })
  if (!whole) work.discard({ staging, names: members.map(({ staged }) => staged) })
  return members.filter((_member, index) => whole?.[index] === true)
}

async function published(
  thread: SecondThread,
  target: RootFolder,
  { folder, signal }: Room,
  bundle: FileBundle,
  members: readonly Member[],
): Promise<Made> {
  const staging = folder.at('')
  let left = members
  try {
    assertGoing(signal)
    const wanted = await bundle.mayTake(members.map(({ name }) => name))
    assertGoing(signal)
    // The folder that has this path now.
    return await using(target, bundle.to, async (to) => {
      const files = members.filter(({ name }) => wanted.has(name))
      left = members.filter(({ name }) => !wanted.has(name))
      const order = { staging, to: to.at(''), files: files.map(({ name, staged }) => ({ name, staged })) }
      // A thread that ended meanwhile may have done some of it.
      const taken =
        (await thread.ask('take', { ...order, isRepeated: false })) ?? work.take({ ...order, isRepeated: true })
      return new Map(
        files.flatMap(({ name }, index): [string, Entry][] => {
          const status = taken[index]
          return status ? [[name, entryFrom(name, status)]] : []
        }),
      )
    })
  } finally {
    const order = { staging, names: left.map(({ staged }) => staged) }
    if (left.length > 0 && !(await thread.ask('discard', order))) work.discard(order)
  }
}
