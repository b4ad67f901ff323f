/** What a share does with each operation of the tree. A new one does not compile before that is decided here. */
import t from 'tap'
import { asPath as p } from '../../src/base/path.js'
import type { ShareMode } from '../../src/base/rights.js'
import { ShareUploads } from '../../src/shares/share-uploads.js'
import { SharedTree } from '../../src/shares/shared-tree.js'
import type { VirtualFs } from '../../src/tree/virtual-fs.js'
import { principal } from '../accounts/principals.js'
import { contents, fill, lockAsk, newTree, overwrite, property, sourceOf } from '../tree/tree-fixture.js'

/**
 * `reads`: it changes nothing. `counted`: what it stores or makes is within the limits of the share, and it is refused
 * where visitors may store nothing. `refused`: in every mode, where it changes something. `by policy`: it stores no
 * content, so that the policy alone decides.
 */
type Treatment = 'reads' | 'counted' | 'refused' | 'by policy'

const treatments: Readonly<Record<keyof VirtualFs, Treatment>> = {
  principal: 'reads',
  stat: 'reads',
  view: 'reads',
  list: 'reads',
  pages: 'reads',
  members: 'reads',
  assertMembersReadable: 'reads',
  search: 'reads',
  read: 'reads',
  assertContentGranted: 'reads',
  openToSend: 'reads',
  downloadRoute: 'reads',
  directUrl: 'reads',
  thumbnail: 'reads',
  usage: 'reads',
  usageOrUndefined: 'reads',
  mountUsages: 'reads',
  isSameFile: 'reads',
  readSymlink: 'reads',
  check: 'reads',
  fromClient: 'reads',
  assertWritable: 'reads',
  assertAllowed: 'reads',
  assertMayChange: 'reads',
  checkMayChange: 'reads',
  history: 'reads',
  isBetweenStorages: 'reads',
  locks: 'reads',
  properties: 'reads',
  memberProperties: 'reads',
  mayChangeProperty: 'reads',
  write: 'counted',
  copy: 'counted',
  mkdir: 'counted',
  lock: 'counted',
  open: 'refused',
  reserve: 'refused',
  symlink: 'refused',
  hardLink: 'refused',
  remove: 'by policy',
  move: 'by policy',
  setAttributes: 'by policy',
  setOwnAttributes: 'by policy',
  refreshLock: 'by policy',
  unlock: 'by policy',
  setProperties: 'by policy',
}

/** One call of each operation that changes something. */
const changes = {
  write: (fs: VirtualFs) => fs.write(p('/new'), sourceOf('x')),
  copy: (fs: VirtualFs) => fs.copy(p('/a'), p('/new'), overwrite),
  mkdir: (fs: VirtualFs) => fs.mkdir(p('/new')),
  lock: (fs: VirtualFs) => fs.lock(p('/new'), lockAsk),
  open: (fs: VirtualFs) => fs.open(p('/new'), 'replace'),
  reserve: (fs: VirtualFs) => fs.reserve(p('/new')),
  symlink: (fs: VirtualFs) => fs.symlink(p('/new'), '/a'),
  hardLink: (fs: VirtualFs) => fs.hardLink(p('/a'), p('/new')),
  remove: (fs: VirtualFs) => fs.remove(p('/a')),
  move: (fs: VirtualFs) => fs.move(p('/a'), p('/new'), overwrite),
  setAttributes: (fs: VirtualFs) => fs.setAttributes(p('/a'), { modified: new Date(1000) }),
  setOwnAttributes: (fs: VirtualFs) => fs.setOwnAttributes(p('/a'), { modified: new Date(1000) }),
  refreshLock: (fs: VirtualFs) => fs.refreshLock(p('/a'), 'urn:uuid:none', 60),
  unlock: (fs: VirtualFs) => fs.unlock(p('/a'), 'urn:uuid:none'),
  setProperties: (fs: VirtualFs) => fs.setProperties(p('/a'), [{ set: ofWindows }]),
}

const ofWindows = { ...property, namespace: 'urn:schemas-microsoft-com:', name: 'Win32FileAttributes', value: '20' }

const namesOf = (...wanted: readonly Treatment[]) =>
  Object.entries(treatments).flatMap(([name, treatment]) => (wanted.includes(treatment) ? [name] : []))

void t.test('the tree of a share overrides what counts and what is refused, and nothing else', async (t) => {
  const overridden = Object.getOwnPropertyNames(SharedTree.prototype).filter((name) => name !== 'constructor')
  t.same(overridden.sort(), namesOf('counted', 'refused').sort())
  t.same(Object.keys(changes).sort(), namesOf('counted', 'refused', 'by policy').sort(), 'each is called below')
})

const { as, dependencies } = await newTree(t)
const admin = as({ role: 'admin', userId: 9 })

/** A new folder with a share of it, and how many uploads of the share have begun. */
async function shared(base: string, mode: ShareMode) {
  await fill(admin, { [`${base}/a`]: 'a' })
  const count = { begun: 0 }
  const rows = {
    reserve: async () => ++count.begun,
    finish: async () => undefined,
    release: async () => undefined,
    extend: async () => undefined,
    isClaimed: async () => false,
    claim: async () => true,
  }
  const visitor = principal({ base, folder: p(base), share: { id: base, pseudonym: 'p', mode } })
  return { fs: new SharedTree(dependencies, visitor, new ShareUploads(rows, { warn: () => undefined })), count }
}

/** The operations that succeed, each in a folder of its own. The others must have changed nothing. */
async function allowed(mode: ShareMode): Promise<readonly string[]> {
  const { locks } = dependencies
  const done: string[] = []
  for (const [name, change] of Object.entries(changes)) {
    const base = `/${mode} ${name}`
    const { fs, count } = await shared(base, mode)
    const locked = locks.list().length
    const isDone = await change(fs).then(
      () => true,
      () => false,
    )
    if (isDone) done.push(name)
    else t.same([await contents(admin, p(base)), locks.list().length], [{ [`${base}/a`]: 'a' }, locked], base)
    if (isDone && ['write', 'copy', 'lock'].includes(name)) t.equal(count.begun, 1, `${name} counts`)
  }
  return done.sort()
}

void t.test('each mode allows what it is for', async (t) => {
  t.same(await allowed('read'), [])
  t.same(await allowed('upload'), ['write'])
  const ofContent = ['write', 'copy', 'mkdir', 'lock']
  t.same(await allowed('both'), [...ofContent, 'setAttributes', 'setOwnAttributes', 'setProperties'].sort())
})
