/** Path locks of nodes: what is read again under them, and who hears that they are lost. */
import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import { asPath } from '../../src/contract/path.js'
import type { LockOptions } from '../../src/store/engine.js'
import { SharedPathLocks } from '../../src/storage/path-locks.js'

const claims = [{ path: asPath('/a'), tree: false }]
const notices = { take: () => [], putBack: () => undefined }

/** Locks over a database that has counted `changes` of WebDAV locks, of which this process has made and stored `own`. */
function locksOver(database: { changes: number; own: number | undefined }) {
  let reloads = 0
  let beforeReading: () => unknown = () => undefined
  const shared = {
    spansMachines: true,
    acquire: async (_claims: unknown, _options?: LockOptions) => {
      const counts = new Map([['locks', database.changes] as const])
      beforeReading()
      return { counts, release: async () => true }
    },
  }
  const mirror = {
    reload: async () => {
      reloads++
    },
    ownChanges: () => database.own,
  }
  const locks = new SharedPathLocks(shared, notices, new Map([['locks', mirror] as const]))
  return {
    locks,
    /** Resolves to whether the mirror was read again. `meanwhile`: is called when the database has answered. */
    isRead: async (meanwhile: () => unknown = () => undefined) => {
      const before = reloads
      beforeReading = () => meanwhile()
      ;(await locks.acquire(claims))()
      await turn()
      return reloads > before
    },
  }
}

void t.test('a mirror is read again only if another process has changed its rows', async (t) => {
  const database: { changes: number; own: number | undefined } = { changes: 7, own: 2 }
  const { isRead } = locksOver(database)
  t.equal(await isRead(), true, 'at first')
  t.equal(await isRead(), false)
  Object.assign(database, { changes: 8, own: 3 })
  t.equal(await isRead(), false, 'after an own change')
  database.changes = 9
  t.equal(await isRead(), true, 'after a change by another one')
  t.equal(await isRead(), false)
})

void t.test('an own change that is stored meanwhile hides no change by another process', async (t) => {
  const database: { changes: number; own: number | undefined } = { changes: 7, own: 2 }
  const { isRead } = locksOver(database)
  await isRead()
  // Another one changes a row. The database answers, and only then stores the change of this process.
  database.changes = 8
  t.equal(await isRead(() => Object.assign(database, { changes: 9, own: 3 })), true)
  // The change of this process is counted, but its end is not known here yet.
  Object.assign(database, { changes: 10, own: undefined })
  t.equal(await isRead(), true)
  // It ends, and another one changes a row.
  Object.assign(database, { changes: 11, own: 4 })
  t.equal(await isRead(), true)
  t.equal(await isRead(), false)
})

void t.test('all who hold locks hear that they are lost', async (t) => {
  const { locks } = locksOver({ changes: 0, own: 0 })
  const lost: string[] = []
  const hold = (name: string) =>
    locks.acquire([{ path: asPath(`/${name}`), tree: false }], undefined, { onLost: () => lost.push(name) })
  const [release] = [await hold('one'), await hold('two')]
  release()
  locks.loseAll()
  t.same(lost, ['two'])
})
