/**
 * The promises of the second check. Every change is checked before its work begins, and once more under its path locks,
 * right before it takes effect. In each cell of the table something else changes between the two. The cell is the code
 * of the error by which the change then ends; nothing may be changed by it.
 */
import { cpSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { lstat, mkdtemp, readdir, readFile, readlink, rename, rm, symlink, unlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { asPath, parentOf, reservedPrefix, type Path } from '../../src/base/path.js'
import type { PathClaim, PathLocks } from '../../src/locks/path-locks.js'
import type { ChangeOptions } from '../../src/tree/operation-options.js'
import { etagOf } from '../../src/tree/preconditions.js'
import { VirtualFs } from '../../src/tree/virtual-fs.js'
import { principal } from '../accounts/principals.js'
import { openLocal } from '../drivers/env.js'
import { altered, keep, lockAsk, newTree, overwrite, property, sourceOf, type Test } from './tree-fixture.js'

/**
 * What happens between the two checks:
 *
 * - etag: the entry has changed, or exists now, which `If-Match` or `If-None-Match` excludes
 * - lock: another user has locked the entry, or the folder in which a name is made
 * - token: the lock has ended whose token `If` requires
 * - session: the session of the user was revoked
 * - symlink: a symlink by which the path was named leads elsewhere
 * - swapped: the folder was replaced by a symlink to another one
 * - taken: the name of what is made exists now
 * - rule: a folder rule lets only others change the folder
 * - lost: the path locks were lost as soon as they were acquired
 */
const events = ['etag', 'lock', 'token', 'session', 'symlink', 'swapped', 'taken', 'rule', 'lost'] as const
type Event = (typeof events)[number]

/** Codes of `GatewayError`. `-`: this cannot happen to the change, or does not concern it. */
const table = `
                      etag                 lock    token                session          symlink  swapped         taken       rule    lost
write                 precondition_failed  locked  precondition_failed  unauthenticated  busy     busy            -           denied  unavailable
write bytes           precondition_failed  locked  precondition_failed  unauthenticated  busy     busy            -           denied  unavailable
write a new file      precondition_failed  locked  precondition_failed  unauthenticated  busy     busy            exists      denied  unavailable
commit a replacement  precondition_failed  locked  precondition_failed  unauthenticated  busy     busy            -           denied  unavailable
commit a new file     precondition_failed  locked  precondition_failed  unauthenticated  busy     busy            exists      denied  unavailable
commit an update      precondition_failed  locked  precondition_failed  unauthenticated  busy     busy            -           denied  unavailable
reserve               exists               locked  precondition_failed  unauthenticated  busy     busy            exists      denied  unavailable
make a folder         exists               locked  precondition_failed  unauthenticated  busy     -               exists      denied  unavailable
make a parent         -                    locked  -                    unauthenticated  -        busy            not_folder  denied  unavailable
make folders          exists               locked  precondition_failed  unauthenticated  -        busy            exists      denied  unavailable
remove                precondition_failed  locked  precondition_failed  unauthenticated  busy     -               -           denied  unavailable
remove a folder       precondition_failed  locked  precondition_failed  unauthenticated  busy     -               -           denied  unavailable
rename                precondition_failed  locked  precondition_failed  unauthenticated  busy     -               -           denied  unavailable
rename to             -                    locked  precondition_failed  unauthenticated  busy     -               exists      denied  unavailable
rename over           -                    locked  precondition_failed  unauthenticated  busy     -               -           denied  unavailable
copy to               -                    locked  -                    unauthenticated  -        busy            exists      denied  unavailable
copy over             -                    locked  -                    unauthenticated  -        busy            -           denied  unavailable
copy a folder to      -                    locked  -                    unauthenticated  -        busy            exists      denied  unavailable
copy a member         -                    locked  -                    unauthenticated  -        busy            exists      denied  unavailable
copy a symlink        -                    locked  -                    unauthenticated  -        busy            exists      denied  unavailable
move to               -                    locked  -                    unauthenticated  -        busy            exists      denied  unavailable
move over             -                    locked  -                    unauthenticated  -        busy            -           denied  unavailable
move away             -                    locked  -                    unauthenticated  -        busy            -           denied  unavailable
make a symlink        exists               locked  precondition_failed  unauthenticated  busy     busy            exists      denied  unavailable
make a hard link      exists               locked  precondition_failed  unauthenticated  busy     busy            exists      denied  unavailable
set attributes        precondition_failed  locked  precondition_failed  unauthenticated  busy     -               -           denied  unavailable
set own attributes    precondition_failed  locked  precondition_failed  unauthenticated  busy     -               -           denied  unavailable
set properties        precondition_failed  locked  precondition_failed  unauthenticated  busy     -               -           denied  unavailable
lock                  precondition_failed  locked  precondition_failed  unauthenticated  busy     busy            -           denied  unavailable
lock a new name       precondition_failed  locked  precondition_failed  unauthenticated  busy     busy            -           denied  unavailable
`

/** A path of the cell by a short name. `d/…` may be named by a symlink. */
type At = (name: string) => Path

interface Kind {
  /** What the change is about, and the path whose lock is awaited. */
  readonly subject: string
  /** `ready`: to be called when the first check has been made. Absent: it is made by the change itself. */
  readonly run: (fs: VirtualFs, at: At, options: ChangeOptions, ready: () => void) => Promise<unknown>
  /** Only what is in this folder has to be unchanged. */
  readonly kept?: string
  readonly isReadied?: boolean
}

const stream = () => sourceOf('new', { rereadable: false })
const bytes = Buffer.from('new')
const attributes = { mode: 0o600, modified: new Date(0) }

/** Opens a file, writes to it and commits that. */
function commit(subject: string, mode: 'replace' | 'update'): Kind {
  const run: Kind['run'] = async (fs, at, options, ready) => {
    const file = await fs.open(at(subject), mode, options)
    try {
      await file.write([bytes], 0)
      ready()
      await file.commit?.()
    } finally {
      await file.close()
    }
  }
  return { subject, run, isReadied: true }
}

/** A change of one path. */
function change(subject: string, run: (fs: VirtualFs, path: Path, options: ChangeOptions) => Promise<unknown>): Kind {
  return { subject, run: (fs, at, options) => run(fs, at(subject), options) }
}

/** Copies or moves `from` to `to`. */
function transfer(kind: 'copy' | 'move', from: string, to: string, options: typeof keep | typeof overwrite): Kind {
  return { subject: to, run: (fs, at, asked) => fs[kind](at(from), at(to), { ...options, ...asked }) }
}

const kinds: Readonly<Record<string, Kind>> = {
  write: change('d/x', (fs, path, options) => fs.write(path, stream(), options)),
  'write bytes': change('d/x', (fs, path, options) => fs.write(path, sourceOf(bytes, { bytes }), options)),
  'write a new file': change('d/new', (fs, path, options) => fs.write(path, stream(), options)),
  'commit a replacement': commit('d/x', 'replace'),
  'commit a new file': commit('d/new', 'replace'),
  'commit an update': commit('spooled/d/x', 'update'),
  reserve: change('d/new', (fs, path, options) => fs.reserve(path, options)),
  'make a folder': change('d/new', (fs, path, options) => fs.mkdir(path, options)),
  'make a parent': {
    subject: 'd/new',
    run: (fs, at, options) => fs.mkdir(at('d/new/er'), { ...options, parents: true }),
  },
  'make folders': change('d/new/er', (fs, path, options) => fs.mkdir(path, { ...options, parents: true })),
  remove: change('d/x', (fs, path, options) => fs.remove(path, options)),
  'remove a folder': change('d/f', (fs, path, options) => fs.remove(path, options)),
  rename: { ...transfer('move', 'd/x', 'd/new', keep), subject: 'd/x' },
  'rename to': transfer('move', 'e/x', 'd/new', keep),
  'rename over': transfer('move', 'e/x', 'd/x', overwrite),
  'copy to': transfer('copy', 'e/x', 'd/new', keep),
  'copy over': transfer('copy', 'e/x', 'd/x', overwrite),
  'copy a folder to': transfer('copy', 'e/f', 'd/new', keep),
  'copy a member': { ...transfer('copy', 'e/f', 'd/new', keep), subject: 'd/new/a' },
  'copy a symlink': transfer('copy', 'e/link', 'd/new', keep),
  'move to': transfer('move', 'other/d/x', 'd/new', keep),
  'move over': transfer('move', 'other/d/x', 'd/x', overwrite),
  'move away': { ...transfer('move', 'd/x', 'other/d/new', keep), subject: 'd/x', kept: 'd' },
  'make a symlink': change('d/new', (fs, path, options) => fs.symlink(path, 'x', options)),
  'make a hard link': { subject: 'd/new', run: (fs, at, options) => fs.hardLink(at('e/x'), at('d/new'), options) },
  'set attributes': change('d/x', (fs, path, options) => fs.setAttributes(path, attributes, options)),
  'set own attributes': change('d/x', (fs, path, options) => fs.setOwnAttributes(path, attributes, options)),
  'set properties': change('d/x', (fs, path, options) => fs.setProperties(path, [{ set: property }], options)),
  lock: change('d/x', (fs, path, options) => fs.lock(path, lockAsk, options)),
  'lock a new name': change('d/new', (fs, path, options) => fs.lock(path, lockAsk, options)),
}

/** Path locks that let something happen before a change gets them. */
class Gate implements PathLocks {
  readonly canBeLost = true
  #step: (() => Promise<unknown>) | undefined

  constructor(
    private readonly own: PathLocks,
    private readonly awaited: Path,
    private readonly losesLocks: boolean,
  ) {}

  /** Performs `step` when the lock of the awaited path is asked for the next time. */
  arm(step: () => Promise<unknown>): void {
    this.#step = step
  }

  get isArmed(): boolean {
    return this.#step !== undefined
  }

  async acquire(
    claims: readonly PathClaim[],
    signal?: AbortSignal,
    options?: Parameters<PathLocks['acquire']>[2],
  ): Promise<() => void> {
    const step = claims.some(({ path }) => path === this.awaited) ? this.#step : undefined
    if (step) this.#step = undefined
    await step?.()
    const release = await this.own.acquire(claims, signal, options)
    if (step && this.losesLocks) options?.onLost?.()
    return release
  }
}

/** What is stored on disk in a folder: contents, modes, and the times of files. */
async function stored(folder: string): Promise<Record<string, unknown>> {
  const found: Record<string, unknown> = {}
  for (const name of (await readdir(folder)).sort()) {
    const path = join(folder, name)
    const facts = await lstat(path)
    if (name.startsWith(reservedPrefix)) continue
    if (facts.isDirectory()) Object.assign(found, { [path]: facts.mode }, await stored(path))
    else if (facts.isSymbolicLink()) found[path] = await readlink(path)
    else found[path] = [await readFile(path, 'utf8'), facts.mode, facts.mtimeMs]
  }
  return found
}

/** Three storages on disk, with a folder for each cell of a row. */
async function newRow(t: Test) {
  const disk = await mkdtemp(join(tmpdir(), 'tidegate-second-check-'))
  t.teardown(() => rm(disk, { recursive: true, force: true }))
  const first = join(disk, events[0])
  for (const folder of ['d/f', 'e/f']) mkdirSync(join(first, folder), { recursive: true })
  for (const file of ['d/x', 'd/f/a', 'e/x', 'e/f/a']) writeFileSync(join(first, file), `content of ${file}`)
  symlinkSync('d', join(first, 'link'))
  symlinkSync('x', join(first, 'e/link'))
  for (const storage of ['', 'other', 'spooled'])
    for (const event of events)
      if (join(disk, storage, event) !== first)
        cpSync(first, join(disk, storage, event), { recursive: true, verbatimSymlinks: true })
  const tree = await newTree(t, {
    '/': { driverOf: () => openLocal(disk) },
    '/other': { driverOf: () => openLocal(join(disk, 'other')) },
    '/spooled': { driverOf: async () => altered(await openLocal(join(disk, 'spooled')), { open: undefined }) },
  })
  return { disk, tree }
}

async function newCell({ disk, tree }: Awaited<ReturnType<typeof newRow>>, event: Event, kind: Kind) {
  const { dependencies, store } = tree
  const { locks, mounts } = dependencies
  const place = (name: string) => {
    const [, storage = '', path = ''] = /^(other\/|spooled\/|)(.*)$/.exec(name) ?? []
    return asPath(join('/', storage, event, path))
  }
  const at: At = (name) => place(event === 'symlink' ? name.replace(/^(spooled\/|)d\//, '$1link/') : name)
  const subject = place(kind.subject)
  const { storage, inner } = mounts.find(subject)
  const entry = await storage.statOrUndefined(inner)
  const locked = entry ? subject : parentOf(subject)
  const session = new AbortController()
  const ada = principal({ signal: session.signal })
  const bob = principal({ userId: 2, username: 'bob' })
  const gate = new Gate(dependencies.pathLocks, subject, event === 'lost')
  const top = join(disk, kind.subject.startsWith('spooled/') ? 'spooled' : '', event)

  const options = async (): Promise<ChangeOptions> => {
    if (event === 'etag') return entry ? { ifMatch: [etagOf(entry)] } : { ifNoneMatch: '*' }
    if (event === 'taken') return { createOnly: true }
    if (event !== 'token') return {}
    const { token } = await locks.grant(locked, lockAsk, ada)
    return { lockTokens: [token], if: [{ path: locked, lists: [[{ not: false, kind: 'token', value: token }]] }] }
  }
  const write = async () => {
    if (entry?.kind === 'folder') await storage.setAttributes(inner, { modified: new Date(1) })
    else await storage.write(inner, sourceOf('by another'))
  }
  const steps: Readonly<Record<Event, () => unknown>> = {
    etag: write,
    taken: write,
    lock: () => locks.grant(locked, lockAsk, bob),
    token: () => Promise.all(locks.list().map(({ token }) => locks.break(token))),
    session: () => session.abort(),
    symlink: async () => {
      await unlink(join(top, 'link'))
      await symlink('e', join(top, 'link'))
    },
    swapped: async () => {
      await rename(join(top, 'd'), join(top, 'was'))
      await symlink('e', join(top, 'd'))
    },
    rule: () => tree.rule(parentOf(subject), { writeUsers: [2] }),
    lost: () => undefined,
  }
  const kept = kind.kept === undefined ? ['', 'other/', 'spooled/'].map(place) : [place(kind.kept)]
  const facts = async () => {
    const properties: Path[] = []
    for await (const paths of store.properties.within(place(''))) properties.push(...paths)
    const files = await Promise.all(kept.map((path) => stored(join(disk, path))))
    return { files, properties, locks: locks.list() }
  }
  return { fs: new VirtualFs({ ...dependencies, pathLocks: gate }, ada), gate, at, options, step: steps[event], facts }
}

const rows = table
  .trim()
  .split('\n')
  .slice(1)
  .map((row) => row.split(/ {2,}/))

for (const [name = '', ...codes] of rows) {
  void t.test(name, async (t) => {
    const kind = kinds[name]
    if (!kind) throw new Error(`no such kind of change: ${name}`)
    const row = await newRow(t)
    for (const [index, event] of events.entries()) {
      const code = codes[index]
      if (code === '-') continue
      const { fs, gate, at, options, step, facts } = await newCell(row, event, kind)
      const asked = await options()
      let before: unknown
      const arm = () =>
        gate.arm(async () => {
          await step()
          before = await facts()
        })
      if (kind.isReadied !== true) arm()
      await t.rejects(kind.run(fs, at, asked, arm), { code }, `${event}: the change is refused`)
      t.notOk(gate.isArmed, `${event}: after its path lock was asked for`)
      t.same(await facts(), before, `${event}: nothing is changed`)
    }
  })
}

void t.test('the first check refuses the same, and before the body is read', async (t) => {
  const name = 'write a new file'
  const [, ...codes] = rows.find(([first]) => first === name) ?? []
  const kind = kinds[name]
  if (!kind) throw new Error(`no such kind of change: ${name}`)
  const row = await newRow(t)
  for (const event of ['etag', 'lock', 'token', 'session', 'taken', 'rule'] as const) {
    const { fs, at, options, step } = await newCell(row, event, kind)
    const asked = await options()
    await step()
    let isRead = false
    const source = stream()
    const read: typeof source.read = (...range) => {
      isRead = true
      return source.read(...range)
    }
    const code = codes[events.indexOf(event)]
    await t.rejects(fs.write(at('d/new'), { ...source, read }, asked), { code }, event)
    t.notOk(isRead, `${event}: the body is not read`)
  }
})

void t.test('each kind of change has a row', async (t) => {
  t.same(
    rows.map(([name]) => name),
    Object.keys(kinds),
  )
})
