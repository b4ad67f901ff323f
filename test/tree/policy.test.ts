/** The authorization policy: each row states the verdict for a principal, an action and a path. */
import t from 'tap'
import { protocols } from '../../protocols/index.js'
import { permissionBits, type Permission } from '../../src/accounts/principal.js'
import { asPath, childOf, parentOf, type Path } from '../../src/base/path.js'
import type { FolderRule } from '../../src/database/tables/rules.js'
import { hidePatterns, type Rule } from '../../src/tree/folder-rules.js'
import { hidesNames, isOmitted, memberFilter, seesMountUsages } from '../../src/tree/policy/names.js'
import {
  folderRights,
  isRestricted,
  judge,
  judgeTarget,
  type Action,
  type RuledPath,
  type Verdict,
} from '../../src/tree/policy/one-path.js'
import { movesAnySymlink, readsAll, revealsNames } from '../../src/tree/policy/whole-folders.js'
import { principal, type Asker } from '../accounts/principals.js'
import { ruleRow } from '../database/store-rows.js'
import { webdav } from '../../protocols/webdav/index.js'
import { sftp } from '../../protocols/sftp/index.js'

/** The rules of a tree, by folder; the nearest one applies. */
type RuleTable = Readonly<Record<string, Partial<FolderRule>>>

/** Compiled rules, by their fields: a rule is one object, as in `Rules`. */
const compiled = new WeakMap<Partial<FolderRule>, Rule>()

function nearest(rules: RuleTable, path: string): Rule | undefined {
  for (let at = asPath(path); ; at = parentOf(at)) {
    const fields = rules[at]
    if (fields) {
      const rule = compiled.get(fields) ?? ruleAt(at, fields)
      compiled.set(fields, rule)
      return rule
    }
    if (at === '/') return undefined
  }
}

function ruleAt(path: Path, fields: Partial<FolderRule>): Rule {
  const row = { ...ruleRow({ ...fields, path }), id: 1 }
  const patterns = hidePatterns(row.hide)
  return { ...row, hides: (name) => patterns.some((pattern) => pattern.test(name)), hideCost: 0 }
}

interface Row {
  readonly who?: Asker
  readonly action: Action
  readonly path: string
  readonly rules?: RuleTable
  readonly password?: string
  readonly verdict: Verdict
}

function verdictOf({ who, action, path, rules = {}, password }: Row): Verdict {
  const at = ruled(rules, path)
  return judge(principal(who), action, at.path, at, password)
}

function ruled(rules: RuleTable, path: string): RuledPath {
  const at = asPath(path)
  return { path: at, atPath: nearest(rules, at), atParent: nearest(rules, parentOf(at)) }
}

function told({ who, action, path, rules, password }: Row): string {
  return JSON.stringify({ action, path, ...who, ...(rules && { rules }), ...(password && { password }) })
}

function table(title: string, rows: readonly Row[]): void {
  void t.test(title, async (t) => {
    for (const row of rows) t.equal(verdictOf(row), row.verdict, told(row))
  })
}

const changes: readonly Action[] = [
  'write',
  'mkdir',
  'rename',
  'move',
  'receive',
  'remove',
  'attributes',
  'lock',
  'properties',
]
const allBits = Object.keys(permissionBits) as Permission[]
const allActions: readonly Action[] = ['list', 'read', 'refresh', 'copy', 'share', ...changes]

void t.test('each action needs its own permission bit and no other', async (t) => {
  const needed: Readonly<Record<Action, Permission | undefined>> = {
    list: undefined,
    see: undefined,
    read: undefined,
    refresh: 'write',
    write: 'write',
    mkdir: 'write',
    rename: 'rename',
    'rename to': 'rename',
    move: 'move',
    receive: undefined,
    copy: 'copy',
    remove: 'remove',
    share: 'share',
    attributes: 'write',
    lock: 'write',
    properties: 'write',
  }
  for (const action of allActions) {
    const bit = needed[action]
    const path = '/a/b'
    t.equal(verdictOf({ who: { may: [] }, action, path, verdict: 'allow' }), bit ? 'denied' : 'allow', action)
    if (!bit) continue
    t.equal(verdictOf({ who: { may: [bit] }, action, path, verdict: 'allow' }), 'allow', `${action} with ${bit}`)
    const others = allBits.filter((other) => other !== bit)
    const row: Row = { who: { may: others }, action, path, verdict: 'denied' }
    t.equal(verdictOf(row), 'denied', `${action} with everything but ${bit}`)
  }
})

void t.test('an admin without the write bit may not write', async (t) => {
  t.equal(verdictOf({ who: { role: 'admin', may: [] }, action: 'write', path: '/a', verdict: 'denied' }), 'denied')
})

for (const protocol of protocols) {
  const { name, permissions } = protocol
  if (!permissions) continue
  const { read, manage } = permissions
  void t.test(`${name} needs its read bit for everything and its manage bit for changes`, async (t) => {
    const other = protocols
      .flatMap((each) => Object.values(each.permissions ?? {}))
      .filter((bit) => bit !== read && bit !== manage)
    const content: readonly Permission[] = ['write', 'rename', 'move', 'copy', 'remove', 'share']
    for (const action of allActions) {
      const ask = (may: readonly Permission[]) =>
        verdictOf({ who: { protocol, may }, action, path: '/a', verdict: 'allow' })
      const looks = action === 'list' || action === 'read'
      const reads = looks || action === 'share'
      t.equal(ask([...content, ...other]), 'denied', `${action} with the bits of another protocol`)
      t.equal(ask([...content, manage]), 'denied', `${action} with manage alone`)
      t.equal(ask([...content, read]), reads ? 'allow' : 'denied', `${action} with read alone`)
      t.equal(ask([...content, read, manage]), 'allow', `${action} with both`)
      t.equal(
        ask([read, manage]),
        looks || action === 'receive' ? 'allow' : 'denied',
        `${action} without the bit of the action`,
      )
    }
  })
}

void t.test(
  'a read-only app password may list, read, refresh, copy from and share, but not change anything',
  async (t) => {
    for (const action of allActions) {
      const allowed = ['list', 'read', 'refresh', 'copy', 'share'].includes(action)
      for (const protocol of protocols) {
        const row: Row = {
          who: { readOnly: true, protocol },
          action,
          path: '/a',
          verdict: allowed ? 'allow' : 'denied',
        }
        t.equal(verdictOf(row), row.verdict, told(row))
      }
    }
  },
)

void t.test('a signed URL may read its own path regardless of folder rules, and may do nothing else', async (t) => {
  const who: Asker = { onlyPath: asPath('/a/b'), may: [] }
  const rules: RuleTable = { '/': { password: 'x', passwordSub: true, hide: '.', hideSub: true, readUsers: [7] } }
  for (const action of allActions) {
    t.equal(verdictOf({ who, action, path: '/a/b', rules, verdict: 'allow' }), action === 'read' ? 'allow' : 'denied')
  }
  for (const path of ['/', '/a', '/a/b/c', '/a/bc']) {
    t.equal(verdictOf({ who, action: 'read', path, rules, verdict: 'denied' }), 'denied', path)
  }
})

void t.test('an operation of a principal whose authority has ended is rejected before any other check', async (t) => {
  const signal = AbortSignal.abort()
  for (const action of allActions) {
    t.equal(verdictOf({ who: { signal, may: [] }, action, path: '/a', verdict: 'unauthenticated' }), 'unauthenticated')
  }
  const who: Asker = { signal, onlyPath: asPath('/a') }
  t.equal(verdictOf({ who, action: 'read', path: '/a', verdict: 'unauthenticated' }), 'unauthenticated')
})

const plain: Asker = { may: ['write', 'rename', 'move', 'copy', 'remove', 'share'] }
const closed: RuleTable = { '/a/closed': { password: 'sesame' } }
const closedDeep: RuleTable = { '/a/closed': { password: 'sesame', passwordSub: true } }

table('a folder password is required in its folder, and below only if password_sub is set', [
  { who: plain, action: 'list', path: '/a', rules: closed, verdict: 'allow' },
  { who: plain, action: 'list', path: '/a/closed', rules: closed, verdict: 'password_required' },
  { who: plain, action: 'list', path: '/a/closed', rules: closed, password: 'wrong', verdict: 'password_required' },
  { who: plain, action: 'list', path: '/a/closed', rules: closed, password: 'sesam', verdict: 'password_required' },
  { who: plain, action: 'list', path: '/a/closed', rules: closed, password: 'sesame', verdict: 'allow' },
  { who: {}, action: 'list', path: '/a/closed', rules: closed, verdict: 'allow' }, // access without passwords
  { who: plain, action: 'read', path: '/a/closed', rules: closed, verdict: 'password_required' },
  { who: plain, action: 'read', path: '/a/closed/x', rules: closed, verdict: 'password_required' },
  { who: plain, action: 'read', path: '/a/closed/x', rules: closed, password: 'sesame', verdict: 'allow' },
  { who: plain, action: 'list', path: '/a/closed/sub', rules: closed, verdict: 'allow' },
  { who: plain, action: 'read', path: '/a/closed/sub/x', rules: closed, verdict: 'allow' },
  { who: plain, action: 'list', path: '/a/closed/sub', rules: closedDeep, verdict: 'password_required' },
  { who: plain, action: 'read', path: '/a/closed/sub/x', rules: closedDeep, verdict: 'password_required' },
  { who: plain, action: 'read', path: '/a/closed/sub/x', rules: closedDeep, password: 'sesame', verdict: 'allow' },
  // Only the nearest rule applies: one without a password overrides the password of an ancestor.
  {
    who: plain,
    action: 'list',
    path: '/a/closed/open',
    rules: { ...closedDeep, '/a/closed/open': {} },
    verdict: 'allow',
  },
])

table('a change in a folder with a password requires the password, and a change elsewhere does not', [
  ...changes.map((action): Row => ({
    who: plain,
    action,
    path: '/a/closed/x',
    rules: closed,
    verdict: 'password_required',
  })),
  ...changes.map((action): Row => ({
    who: plain,
    action,
    path: '/a/closed/x',
    rules: closed,
    password: 'sesame',
    verdict: 'allow',
  })),
  { who: plain, action: 'copy', path: '/a/closed/x', rules: closed, verdict: 'password_required' },
  { who: plain, action: 'refresh', path: '/a/closed', rules: closed, verdict: 'password_required' },
  { who: plain, action: 'write', path: '/a/x', rules: closed, verdict: 'allow' },
  { who: plain, action: 'write', path: '/a/closed/sub/x', rules: closed, verdict: 'allow' },
  { who: plain, action: 'write', path: '/a/closed/sub/x', rules: closedDeep, verdict: 'password_required' },
])

const hides: RuleTable = { '/a': { hide: '^secret$\n\\.tmp$' } }
const hidesDeep: RuleTable = { '/a': { hide: '^secret$', hideSub: true } }

table('a path is hidden if its own name or the name of one of its folders matches a hide pattern', [
  { who: plain, action: 'read', path: '/a/secret', rules: hides, verdict: 'hidden' },
  { who: plain, action: 'read', path: '/a/x.tmp', rules: hides, verdict: 'hidden' },
  { who: plain, action: 'read', path: '/a/Secret', rules: hides, verdict: 'allow' },
  { who: plain, action: 'read', path: '/a/secrets', rules: hides, verdict: 'allow' },
  { who: plain, action: 'list', path: '/a/secret', rules: hides, verdict: 'hidden' },
  { who: plain, action: 'read', path: '/a/secret/deep/x', rules: hides, verdict: 'hidden' },
  { who: plain, action: 'list', path: '/a/secret/deep', rules: hides, verdict: 'hidden' },
  { who: plain, action: 'read', path: '/a/b/secret', rules: hides, verdict: 'allow' },
  { who: plain, action: 'read', path: '/a/b/secret', rules: hidesDeep, verdict: 'hidden' },
  { who: plain, action: 'read', path: '/a/b/secret/x', rules: hidesDeep, verdict: 'hidden' },
  { who: plain, action: 'read', path: '/secret', rules: hidesDeep, verdict: 'allow' },
  { who: {}, action: 'read', path: '/a/secret', rules: hides, verdict: 'allow' }, // may see hidden entries
  ...changes.map((action): Row => ({ who: plain, action, path: '/a/secret', rules: hides, verdict: 'hidden' })),
  { who: plain, action: 'write', path: '/a/secret/x', rules: hides, verdict: 'hidden' },
  // Hiding is checked before the password, so that the error does not reveal that the folder exists.
  {
    who: plain,
    action: 'list',
    path: '/a/secret',
    rules: { '/a': { hide: 'secret', password: 'x' } },
    verdict: 'hidden',
  },
  // The rule of the parent folder applies, so that a listing and a direct request agree.
  { who: plain, action: 'read', path: '/a/b', rules: { '/a/b': { hide: '.*' } }, verdict: 'allow' },
  { who: plain, action: 'read', path: '/a/b/x', rules: { '/a/b': { hide: '.*' } }, verdict: 'hidden' },
])

table("patterns do not hide a user's base folder or the folders above it", [
  { who: { ...plain, base: '/a/secret' }, action: 'list', path: '/a/secret', rules: hidesDeep, verdict: 'allow' },
  { who: { ...plain, base: '/a/secret' }, action: 'read', path: '/a/secret/x', rules: hidesDeep, verdict: 'allow' },
  {
    who: { ...plain, base: '/a/secret' },
    action: 'read',
    path: '/a/secret/b/secret',
    rules: hidesDeep,
    verdict: 'hidden',
  },
])

const readers: RuleTable = { '/a': { readUsers: [2, 3] } }
const readersDeep: RuleTable = { '/a': { readUsers: [2, 3], readUsersSub: true } }
const named: Asker = { ...plain, userId: 2 }

table('read_users hides the folder from all other users, including admins', [
  { who: {}, action: 'list', path: '/a', rules: readers, verdict: 'hidden' },
  { who: { role: 'admin' }, action: 'list', path: '/a', rules: readers, verdict: 'hidden' },
  { who: {}, action: 'read', path: '/a', rules: readers, verdict: 'hidden' },
  { who: {}, action: 'read', path: '/a/x', rules: readers, verdict: 'hidden' },
  { who: {}, action: 'list', path: '/a/b', rules: readers, verdict: 'allow' },
  { who: {}, action: 'read', path: '/a/b/x', rules: readers, verdict: 'allow' },
  { who: {}, action: 'list', path: '/a/b', rules: readersDeep, verdict: 'hidden' },
  { who: {}, action: 'read', path: '/a/b/x', rules: readersDeep, verdict: 'hidden' },
  { who: {}, action: 'list', path: '/', rules: readersDeep, verdict: 'allow' },
  ...allActions.map((action): Row => ({ who: {}, action, path: '/a/x', rules: readersDeep, verdict: 'hidden' })),
  ...allActions.map((action): Row => ({ who: named, action, path: '/a/x', rules: readersDeep, verdict: 'allow' })),
])

const writers: RuleTable = { '/a': { writeUsers: [2] } }
const writersDeep: RuleTable = { '/a': { writeUsers: [2], writeUsersSub: true } }

table('write_users allows every user to read, and only the named users to change', [
  { who: {}, action: 'list', path: '/a', rules: writers, verdict: 'allow' },
  { who: {}, action: 'read', path: '/a/x', rules: writers, verdict: 'allow' },
  { who: {}, action: 'copy', path: '/a/x', rules: writers, verdict: 'allow' },
  { who: {}, action: 'refresh', path: '/a', rules: writers, verdict: 'denied' },
  ...changes.map((action): Row => ({ who: {}, action, path: '/a/x', rules: writers, verdict: 'denied' })),
  ...changes.map((action): Row => ({
    who: { role: 'admin' },
    action,
    path: '/a/x',
    rules: writers,
    verdict: 'denied',
  })),
  ...changes.map((action): Row => ({ who: named, action, path: '/a/x', rules: writers, verdict: 'allow' })),
  { who: {}, action: 'write', path: '/a/b/x', rules: writers, verdict: 'allow' },
  { who: {}, action: 'write', path: '/a/b/x', rules: writersDeep, verdict: 'denied' },
  // The rule of a folder does not restrict renaming the folder itself.
  { who: {}, action: 'rename', path: '/a', rules: writers, verdict: 'allow' },
  // A named user still needs the permission bit.
  { who: { userId: 2, may: [] }, action: 'write', path: '/a/x', rules: writers, verdict: 'denied' },
])

const dropBox: RuleTable = { '/a': { write: true } }
const dropBoxDeep: RuleTable = { '/a': { write: true, writeSub: true } }
const guest: Asker = { role: 'guest', may: ['webdavRead', 'webdavManage', 'sftpRead', 'sftpManage'] }

table('a rule with write grants creating and writing, but not renaming, moving, copying or removing', [
  { who: guest, action: 'write', path: '/a/x', rules: dropBox, verdict: 'allow' },
  { who: guest, action: 'mkdir', path: '/a/x', rules: dropBox, verdict: 'allow' },
  { who: guest, action: 'refresh', path: '/a', rules: dropBox, verdict: 'allow' },
  { who: { ...guest, protocol: sftp }, action: 'write', path: '/a/x', rules: dropBox, verdict: 'allow' },
  { who: { ...guest, protocol: webdav }, action: 'write', path: '/a/x', rules: dropBox, verdict: 'allow' },
  { who: { may: [], protocol: webdav }, action: 'write', path: '/a/x', rules: dropBox, verdict: 'denied' },
  { who: guest, action: 'rename', path: '/a/x', rules: dropBox, verdict: 'denied' },
  { who: guest, action: 'move', path: '/a/x', rules: dropBox, verdict: 'denied' },
  { who: guest, action: 'copy', path: '/a/x', rules: dropBox, verdict: 'denied' },
  { who: guest, action: 'remove', path: '/a/x', rules: dropBox, verdict: 'denied' },
  { who: guest, action: 'write', path: '/a/b/x', rules: dropBox, verdict: 'denied' },
  { who: guest, action: 'mkdir', path: '/a/b/x', rules: dropBox, verdict: 'denied' },
  { who: guest, action: 'write', path: '/a/b/x', rules: dropBoxDeep, verdict: 'allow' },
  { who: guest, action: 'write', path: '/x', rules: dropBoxDeep, verdict: 'denied' },
  { who: guest, action: 'write', path: '/a', rules: dropBoxDeep, verdict: 'denied' },
  // write_users overrides it.
  { who: guest, action: 'write', path: '/a/x', rules: { '/a': { write: true, writeUsers: [9] } }, verdict: 'denied' },
])

void t.test('`write` of folderRights() agrees with the verdict on a write in it', async (t) => {
  for (const rules of [{}, writers, writersDeep, dropBox, dropBoxDeep]) {
    for (const who of [plain, guest, named]) {
      for (const folder of ['/', '/a', '/a/b']) {
        const verdict = verdictOf({
          who,
          action: 'write',
          path: `${folder}/x`.replace('//', '/'),
          rules,
          verdict: 'allow',
        })
        const { write } = folderRights(principal(who), asPath(folder), nearest(rules, folder))
        t.equal(write, verdict === 'allow', `${folder} ${JSON.stringify({ who, rules })}`)
      }
    }
  }
})

void t.test('a folder may be changed with any permission for a change, unless the rule names others', async (t) => {
  const rights = (who: Asker, folder: string, rules: RuleTable = {}) =>
    folderRights(principal(who), asPath(folder), nearest(rules, folder))
  for (const bit of allBits) {
    const write = ['write', 'rename', 'move', 'copy', 'remove'].includes(bit)
    t.same(rights({ may: [bit] }, '/a'), { write, writeByRule: false }, bit)
    t.same(rights({ may: [bit] }, '/a', writers), { write: false, writeByRule: false }, bit)
    t.same(rights({ may: [bit], userId: 2 }, '/a', writers), { write, writeByRule: false }, bit)
  }
  t.same(rights(guest, '/a', dropBox), { write: true, writeByRule: true })
  t.same(rights(guest, '/a/b', dropBox), { write: false, writeByRule: false })
  t.same(rights(guest, '/a/b', dropBoxDeep), { write: true, writeByRule: true })
  t.same(rights(guest, '/a', { '/a': { write: true, writeUsers: [9] } }), { write: false, writeByRule: true })
})

void t.test('isHidden() is false without a rule and with a rule without patterns', async (t) => {
  for (const rules of [{}, { '/': { hide: '' } }, { '/': { hide: '\n  \r\n' } }]) {
    t.equal(verdictOf({ who: plain, action: 'read', path: '/a', rules, verdict: 'allow' }), 'allow')
    t.notOk(isOmitted(principal(plain), asPath('/a'), nearest(rules, '/'), undefined))
  }
})

void t.test('names are hidden by patterns, from those who do not see hidden names', async (t) => {
  t.ok(hidesNames(principal(plain), nearest(hides, '/a')))
  t.notOk(hidesNames(principal({ may: ['seeHidden'] }), nearest(hides, '/a')))
  t.notOk(hidesNames(principal(plain), nearest(closed, '/a/closed')))
  t.notOk(hidesNames(principal(plain), undefined))
})

void t.test('a listing omits a member exactly if reading it is answered with hidden', async (t) => {
  const tables: readonly RuleTable[] = [
    ...[{}, hides, hidesDeep, readers, readersDeep, closed, closedDeep, writersDeep],
    { ...hidesDeep, '/a/b': { readUsers: [9] }, '/a/secret': { readUsers: [2] } },
    { '/': { hide: 'b', hideSub: true, readUsers: [2], readUsersSub: true }, '/a/x.tmp': {} },
  ]
  const askers: readonly Asker[] = [{}, plain, named, { ...plain, base: '/a/b' }, { may: ['seeHidden'] }]
  let omitted = 0
  for (const rules of tables) {
    for (const who of askers) {
      for (const folder of ['/', '/a', '/a/b', '/a/closed', '/a/secret']) {
        const at = asPath(folder)
        if (verdictOf({ who, action: 'list', path: folder, rules, verdict: 'allow' }) !== 'allow') continue
        const own = (member: string) => (rules[member] ? nearest(rules, member) : undefined)
        const below = Object.keys(rules).some((path) => path !== folder && path.startsWith(folder))
        const filter = memberFilter(principal(who), at, nearest(rules, folder), below ? own : undefined)
        for (const name of ['a', 'b', 'secret', 'x.tmp', 'plain']) {
          const path = childOf(at, name)
          const isHidden = verdictOf({ who, action: 'read', path, rules, verdict: 'hidden' }) === 'hidden'
          const row = JSON.stringify({ path, ...who, rules })
          t.equal(filter.shows(name), !isHidden, row)
          t.equal(isOmitted(principal(who), path, nearest(rules, folder), own(path)), isHidden, row)
          if (isHidden) t.notOk(filter.showsAll, row)
          if (isHidden) omitted += 1
        }
      }
    }
  }
  t.ok(omitted > 20, 'some were omitted')
})

interface TargetRow {
  readonly who?: Asker
  readonly action?: Action
  readonly from: string
  readonly to: string
  readonly realBase?: string
  readonly rules?: RuleTable
  readonly password?: string
  readonly verdict: Verdict | 'outside'
}

function targetTable(title: string, rows: readonly TargetRow[]): void {
  void t.test(title, async (t) => {
    for (const { who, action = 'read', from, to, rules = {}, password, verdict, ...row } of rows) {
      const asker = principal(who)
      const realBase = row.realBase === undefined ? asker.base : asPath(row.realBase)
      const answer = judgeTarget(asker, action, ruled(rules, from), ruled(rules, to), realBase, password)
      t.equal(answer, verdict, JSON.stringify({ ...who, action, from, to, ...row, rules, password }))
    }
  })
}

targetTable('the target of a symlink is judged as if it had been named, and must be below the base', [
  { who: plain, from: '/a/link', to: '/b/x', verdict: 'allow' },
  { who: { ...plain, base: '/a' }, from: '/a/link', to: '/a/x', verdict: 'allow' },
  { who: { ...plain, base: '/a' }, from: '/a/link', to: '/b/x', verdict: 'outside' },
  { who: { ...plain, base: '/a' }, from: '/a/link', to: '/ab', verdict: 'outside' },
  { who: { ...plain, base: '/a' }, from: '/a/link', to: '/b/x', realBase: '/b', verdict: 'allow' },
  { who: { role: 'admin', base: '/a' }, from: '/a/link', to: '/b/x', verdict: 'outside' },
  { who: plain, from: '/b/link', to: '/a/secret', rules: hides, verdict: 'hidden' },
  { who: {}, from: '/b/link', to: '/a/x', rules: readers, verdict: 'hidden' },
  { who: plain, from: '/b/link', to: '/a/closed/x', rules: closed, verdict: 'password_required' },
  { who: plain, from: '/b/link', to: '/a/closed/x', rules: closed, password: 'sesame', verdict: 'allow' },
  { who: plain, action: 'write', from: '/b/link', to: '/a/x', rules: writers, verdict: 'denied' },
  { who: { signal: AbortSignal.abort() }, from: '/b/link', to: '/a/x', verdict: 'unauthenticated' },
])

const signed: Asker = { may: [], role: 'guest', onlyPath: asPath('/a/link') }

targetTable('a signed URL of a symlink reads its target, unless another rule restricts that', [
  { who: signed, from: '/a/link', to: '/b/x', verdict: 'allow' },
  { who: signed, from: '/a/link', to: '/b/x', rules: closedDeep, verdict: 'allow' },
  { who: signed, from: '/a/other', to: '/b/x', verdict: 'denied' },
  { who: signed, action: 'list', from: '/a/link', to: '/b', verdict: 'denied' },
  { who: signed, action: 'write', from: '/a/link', to: '/b/x', verdict: 'denied' },
  { who: signed, from: '/a/link', to: '/a/closed/x', rules: closed, verdict: 'denied' },
  { who: signed, from: '/a/link', to: '/a/closed/x', rules: closed, password: 'sesame', verdict: 'denied' },
  { who: signed, from: '/a/link', to: '/a/x', rules: readers, verdict: 'allow' },
  { who: signed, from: '/a/link', to: '/b/x', rules: { ...readers, '/b': { readUsers: [2] } }, verdict: 'denied' },
  { who: signed, from: '/a/link', to: '/a/x', rules: { '/a': { password: 'x' } }, verdict: 'allow' },
  { who: signed, from: '/a/link', to: '/a/secret', rules: hides, verdict: 'denied' },
  { who: signed, from: '/a/link', to: '/a/b/secret', rules: hidesDeep, verdict: 'denied' },
  { who: { ...signed, signal: AbortSignal.abort() }, from: '/a/link', to: '/b/x', verdict: 'unauthenticated' },
])

void t.test('a path is restricted if a rule closes it to any user, or hides it', async (t) => {
  const rows: readonly (readonly [path: string, rules: RuleTable, restricted: boolean])[] = [
    ['/a/x', {}, false],
    ['/a/closed', closed, true],
    ['/a/closed/x', closed, true],
    ['/a/closed/sub/x', closed, false],
    ['/a/closed/sub/x', closedDeep, true],
    ['/a', closed, false],
    ['/a/x', readers, true],
    ['/a/b/x', readers, false],
    ['/a/b/x', readersDeep, true],
    ['/a/secret', hides, true],
    ['/a/b', hides, true],
    ['/a/b/x', hides, false],
    ['/a/b/x', hidesDeep, true],
    ['/a/x', writersDeep, false],
    ['/a/x', dropBoxDeep, false],
  ]
  for (const [path, rules, restricted] of rows) {
    t.equal(isRestricted(asPath(path), nearest(rules, path)), restricted, JSON.stringify({ path, rules }))
  }
})

void t.test('a move must not show what a rule above the folder hides', async (t) => {
  const sameThere: RuleTable = { ...hidesDeep, '/b': { hide: '^secret$', hideSub: true } }
  const onlyThere: RuleTable = { ...hidesDeep, '/b': { hide: '^secret$' } }
  const rows: readonly (readonly [from: string, to: string, rules: RuleTable, reveals: boolean, who?: Asker])[] = [
    ['/a/b', '/b/b', {}, false],
    ['/a/b', '/b/b', hidesDeep, true],
    ['/a/b', '/b/b', hidesDeep, false, { may: ['seeHidden'] }],
    ['/a/b', '/a/c/b', hidesDeep, false],
    ['/a', '/b', hidesDeep, false], // the rule moves with its folder
    ['/a/b', '/b/b', hides, false], // the rule does not reach into the folder
    ['/a/b', '/b/b', sameThere, false],
    ['/a/b', '/b/b', onlyThere, true],
    ['/a/b', '/b/b', { ...hidesDeep, '/b': { hide: '^other$', hideSub: true } }, true],
  ]
  for (const [from, to, rules, reveals, who = plain] of rows) {
    const answer = revealsNames(principal(who), ruled(rules, from), ruled(rules, to))
    t.equal(answer, reveals, JSON.stringify({ from, to, ...who, rules }))
  }
})

void t.test('symlinks need no decision for who may read all that they can lead to', async (t) => {
  const [top, above, beside] = [asPath('/a'), asPath('/'), asPath('/b')]
  t.ok(readsAll(principal({ base: '/a' }), top, false))
  t.ok(readsAll(principal(), top, false))
  t.notOk(readsAll(principal({ base: '/a' }), above, false))
  t.notOk(readsAll(principal({ base: '/a' }), beside, false))
  t.notOk(readsAll(principal({ role: 'admin' }), above, true))
  t.ok(movesAnySymlink(principal({ role: 'admin', base: '/a' }), beside, true))
  t.notOk(movesAnySymlink(principal(), beside, true))
  t.ok(movesAnySymlink(principal(), beside, false))
  t.notOk(movesAnySymlink(principal({ base: '/a' }), beside, false))
})

void t.test('the space of storages is shown to all but guests', async (t) => {
  t.ok(seesMountUsages(principal()))
  t.ok(seesMountUsages(principal({ role: 'admin' })))
  t.notOk(seesMountUsages(principal({ role: 'guest' })))
})
