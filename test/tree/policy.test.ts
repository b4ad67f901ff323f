/** The rows are the specification: who may do what, where. */
import t from 'tap'
import { allPermissions, permissionBits, type Permission } from '../../src/accounts/principal.js'
import { protocolNames, protocols } from '../../src/accounts/protocols.js'
import { asPath, parentOf } from '../../src/contract/path.js'
import type { FolderRule } from '../../src/store/rows.js'
import { hidePatterns, type Rule } from '../../src/tree/folder-rules.js'
import { isHidden, judge, mayWriteContent, type Action, type Verdict } from '../../src/tree/policy.js'
import { principal, type Asker } from '../accounts/principals.js'
import { ruleRow } from '../store/store-rows.js'

/** The rules of a tree, by folder; the nearest one decides. */
type RuleTable = Readonly<Record<string, Partial<FolderRule>>>

function nearest(rules: RuleTable, path: string): Rule | undefined {
  for (let at = asPath(path); ; at = parentOf(at)) {
    const fields = rules[at]
    if (fields) {
      const row = { ...ruleRow({ ...fields, path: at }), id: 1 }
      const patterns = hidePatterns(row.hide)
      return { ...row, hides: (name) => patterns.some((pattern) => pattern.test(name)), hideCost: 0 }
    }
    if (at === '/') return undefined
  }
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
  const at = asPath(path)
  const ruling = { own: nearest(rules, at), folder: nearest(rules, parentOf(at)) }
  return judge(principal(who), action, at, ruling, password)
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
const allActions: readonly Action[] = ['list', 'read', 'refresh', 'copy', ...changes]

void t.test('each action needs its own permission bit and no other', async (t) => {
  const needed: Readonly<Record<Action, Permission | undefined>> = {
    list: undefined,
    read: undefined,
    refresh: 'write',
    write: 'write',
    mkdir: 'write',
    rename: 'rename',
    move: 'move',
    receive: undefined,
    copy: 'copy',
    remove: 'remove',
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
    const others = allPermissions & ~permissionBits[bit]
    t.equal(
      judge({ ...principal(), permissions: others }, action, asPath(path), { own: undefined, folder: undefined }),
      'denied',
      `${action} with everything but ${bit}`,
    )
  }
})

void t.test('an admin holds no more than the bits say', async (t) => {
  t.equal(verdictOf({ who: { role: 'admin', may: [] }, action: 'write', path: '/a', verdict: 'denied' }), 'denied')
})

for (const protocol of protocolNames) {
  const { permissions } = protocols[protocol]
  if (!permissions) continue
  const { read, manage } = permissions
  void t.test(`${protocol} needs its read bit for everything and its manage bit for changes`, async (t) => {
    const other = protocolNames
      .flatMap((name) => Object.values(protocols[name].permissions ?? {}))
      .filter((bit) => bit !== read && bit !== manage)
    const content: readonly Permission[] = ['write', 'rename', 'move', 'copy', 'remove']
    for (const action of allActions) {
      const ask = (may: readonly Permission[]) =>
        verdictOf({ who: { protocol, may }, action, path: '/a', verdict: 'allow' })
      const reads = action === 'list' || action === 'read'
      t.equal(ask([...content, ...other]), 'denied', `${action} with the bits of another protocol`)
      t.equal(ask([...content, manage]), 'denied', `${action} with manage alone`)
      t.equal(ask([...content, read]), reads ? 'allow' : 'denied', `${action} with read alone`)
      t.equal(ask([...content, read, manage]), 'allow', `${action} with both`)
      t.equal(ask([read, manage]), reads || action === 'receive' ? 'allow' : 'denied', `${action} without its own bit`)
    }
  })
}

void t.test('an app password that only reads lists, reads and copies from, and changes nothing', async (t) => {
  for (const action of allActions) {
    const allowed = ['list', 'read', 'refresh', 'copy'].includes(action)
    for (const protocol of protocolNames) {
      const row: Row = {
        who: { readOnly: true, protocol },
        action,
        path: '/a',
        verdict: allowed ? 'allow' : 'denied',
      }
      t.equal(verdictOf(row), row.verdict, told(row))
    }
  }
})

void t.test('a signed link reads its one path, whatever the folder rules say, and nothing else', async (t) => {
  const who: Asker = { onlyPath: asPath('/a/b'), may: [] }
  const rules: RuleTable = { '/': { password: 'x', passwordSub: true, hide: '.', hideSub: true, readUsers: [7] } }
  for (const action of allActions) {
    t.equal(verdictOf({ who, action, path: '/a/b', rules, verdict: 'allow' }), action === 'read' ? 'allow' : 'denied')
  }
  for (const path of ['/', '/a', '/a/b/c', '/a/bc']) {
    t.equal(verdictOf({ who, action: 'read', path, rules, verdict: 'denied' }), 'denied', path)
  }
})

void t.test('whoever lost authority is told so before anything else', async (t) => {
  const signal = AbortSignal.abort()
  for (const action of allActions) {
    t.equal(verdictOf({ who: { signal, may: [] }, action, path: '/a', verdict: 'unauthenticated' }), 'unauthenticated')
  }
  const who: Asker = { signal, onlyPath: asPath('/a') }
  t.equal(verdictOf({ who, action: 'read', path: '/a', verdict: 'unauthenticated' }), 'unauthenticated')
})

const plain: Asker = { may: ['write', 'rename', 'move', 'copy', 'remove'] }
const closed: RuleTable = { '/a/closed': { password: 'sesame' } }
const closedDeep: RuleTable = { '/a/closed': { password: 'sesame', passwordSub: true } }

table('a folder password is asked for inside the folder, and below only where the rule says so', [
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
  // The nearest rule decides alone: one without a password opens what one above closed.
  {
    who: plain,
    action: 'list',
    path: '/a/closed/open',
    rules: { ...closedDeep, '/a/closed/open': {} },
    verdict: 'allow',
  },
])

table('changes inside a closed folder need its password, changes of other places do not', [
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

table('what a rule hides is hidden by its own name and by that of a folder it lies in', [
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
  { who: {}, action: 'read', path: '/a/secret', rules: hides, verdict: 'allow' }, // may see hidden things
  ...changes.map((action): Row => ({ who: plain, action, path: '/a/secret', rules: hides, verdict: 'hidden' })),
  { who: plain, action: 'write', path: '/a/secret/x', rules: hides, verdict: 'hidden' },
  // Hidden comes before closed: nobody learns that a password would help.
  {
    who: plain,
    action: 'list',
    path: '/a/secret',
    rules: { '/a': { hide: 'secret', password: 'x' } },
    verdict: 'hidden',
  },
  // The rule of the folder that holds it decides, so that a listing and a direct request agree.
  { who: plain, action: 'read', path: '/a/b', rules: { '/a/b': { hide: '.*' } }, verdict: 'allow' },
  { who: plain, action: 'read', path: '/a/b/x', rules: { '/a/b': { hide: '.*' } }, verdict: 'hidden' },
])

table("nothing at or above a user's own root is hidden from them", [
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

table('read_users shuts everybody else out, admins too', [
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

table('write_users leaves reading to everybody and changes to those named', [
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
  // The rule on the folder says nothing of the folder's own name.
  { who: {}, action: 'rename', path: '/a', rules: writers, verdict: 'allow' },
  // Being named gives no bit.
  { who: { userId: 2, may: [] }, action: 'write', path: '/a/x', rules: writers, verdict: 'denied' },
])

const dropBox: RuleTable = { '/a': { write: true } }
const dropBoxDeep: RuleTable = { '/a': { write: true, writeSub: true } }
const guest: Asker = { role: 'guest', may: ['webdavRead', 'webdavManage', 'sftpRead', 'sftpManage'] }

table('a rule that lets everybody write gives content alone', [
  { who: guest, action: 'write', path: '/a/x', rules: dropBox, verdict: 'allow' },
  { who: guest, action: 'mkdir', path: '/a/x', rules: dropBox, verdict: 'allow' },
  { who: guest, action: 'refresh', path: '/a', rules: dropBox, verdict: 'allow' },
  { who: { ...guest, protocol: 'sftp' }, action: 'write', path: '/a/x', rules: dropBox, verdict: 'allow' },
  { who: { ...guest, protocol: 'webdav' }, action: 'write', path: '/a/x', rules: dropBox, verdict: 'allow' },
  { who: { may: [], protocol: 'webdav' }, action: 'write', path: '/a/x', rules: dropBox, verdict: 'denied' },
  { who: guest, action: 'rename', path: '/a/x', rules: dropBox, verdict: 'denied' },
  { who: guest, action: 'move', path: '/a/x', rules: dropBox, verdict: 'denied' },
  { who: guest, action: 'copy', path: '/a/x', rules: dropBox, verdict: 'denied' },
  { who: guest, action: 'remove', path: '/a/x', rules: dropBox, verdict: 'denied' },
  { who: guest, action: 'write', path: '/a/b/x', rules: dropBox, verdict: 'denied' },
  { who: guest, action: 'mkdir', path: '/a/b/x', rules: dropBox, verdict: 'denied' },
  { who: guest, action: 'write', path: '/a/b/x', rules: dropBoxDeep, verdict: 'allow' },
  { who: guest, action: 'write', path: '/x', rules: dropBoxDeep, verdict: 'denied' },
  { who: guest, action: 'write', path: '/a', rules: dropBoxDeep, verdict: 'denied' },
  // write_users beats it.
  { who: guest, action: 'write', path: '/a/x', rules: { '/a': { write: true, writeUsers: [9] } }, verdict: 'denied' },
])

void t.test('what a folder says of writing agrees with what a write there is answered', async (t) => {
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
        const may = mayWriteContent(principal(who), nearest(rules, folder), asPath(folder))
        t.equal(may, verdict === 'allow', `${folder} ${JSON.stringify({ who, rules })}`)
      }
    }
  }
})

void t.test('without a rule, or without patterns, nothing is hidden', async (t) => {
  t.notOk(isHidden(principal(plain), asPath('/a'), undefined))
  t.notOk(isHidden(principal(plain), asPath('/a'), nearest({ '/': { hide: '' } }, '/')))
  t.notOk(isHidden(principal(plain), asPath('/a'), nearest({ '/': { hide: '\n  \r\n' } }, '/')))
})
