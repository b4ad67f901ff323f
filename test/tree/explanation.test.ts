/** Why decisions are as they are: each row states what decides, and all steps that refuse by themselves. */
import t from 'tap'
import { asPath as p } from '../../src/base/path.js'
import { explainVerdict, type JudgedStep } from '../../src/tree/policy/explanation.js'
import { judge, type Action } from '../../src/tree/policy/one-path.js'
import type { Permission } from '../../src/accounts/principal.js'
import { webdav } from '../../protocols/webdav/index.js'
import { principal, type Asker } from '../accounts/principals.js'
import { ruled, type Asked } from './ruled-path.js'

interface Row extends Asked {
  readonly may?: readonly Permission[]
  readonly who?: Asker
  readonly do: Action
  readonly at: string
  /** The cause, and whose the grants or the rule are, and where. */
  readonly by: string
  /** The causes of all steps that refuse. */
  readonly refusing?: readonly string[]
}

function told({ cause, grants, rule }: JudgedStep): string {
  const subjects = grants.map(({ userId, groupId }) => (userId === undefined ? `group:${groupId}` : `user:${userId}`))
  const at = grants[0]?.path ?? (cause === 'hidden' || cause === 'grant' ? undefined : rule?.path)
  return [cause, ...subjects, ...(at === undefined ? [] : [at])].join(' ')
}

function table(title: string, rows: readonly Row[]): void {
  void t.test(title, async (t) => {
    for (const row of rows) {
      const { may = [], who, do: action, at, by, refusing = [] } = row
      const asker = principal({ may, ...who, grantedOnly: row.only === true })
      const rules = ruled(row, p(at))
      const { verdict, decidedBy, steps } = explainVerdict(asker, action, p(at), rules)
      const what = JSON.stringify(row)
      t.equal(told(decidedBy), by, what)
      t.same(
        steps.filter(({ refused }) => refused).map(({ cause }) => cause),
        refusing,
        what,
      )
      t.equal(verdict !== 'allow', refusing.length > 0, what)
      if (refusing[0] !== 'base') t.equal(verdict, judge(asker, action, p(at), rules), what)
    }
  })
}

table('the credential, the protocol and the base folder come first', [
  { who: { signal: AbortSignal.abort() }, do: 'see', at: '/a', by: 'credential', refusing: ['credential'] },
  { who: { protocol: webdav }, do: 'read', at: '/a', by: 'protocol', refusing: ['protocol'] },
  {
    who: { protocol: webdav, may: ['webdavRead', 'write'] },
    do: 'write',
    at: '/a',
    by: 'protocol',
    refusing: ['protocol'],
  },
  { who: { base: '/home' }, do: 'see', at: '/a', by: 'base', refusing: ['base'] },
])

table('what is not seen is told by the grant that denies it', [
  { grants: { '/a': '-see' }, do: 'read', at: '/a/b', by: 'not_seen user:1 /a', refusing: ['not_seen', 'not_seen'] },
  { only: true, do: 'see', at: '/a', by: 'not_seen', refusing: ['not_seen'] },
  { grants: { '/a': '-see', '/a/b': '+read' }, do: 'see', at: '/a', by: 'way user:1 /a/b' },
  { grants: { '/a': '-see', '/a/b': '+read' }, do: 'read', at: '/a', by: 'way user:1 /a', refusing: ['way'] },
  { only: true, do: 'see', at: '/', by: 'way' },
])

table('a folder rule is told', [
  { rules: { '/a': { hide: 'b' } }, do: 'see', at: '/a/b', by: 'hidden', refusing: ['hidden'] },
  { rules: { '/a': { readUsers: [7] } }, do: 'see', at: '/a/b', by: 'read_users /a', refusing: ['read_users'] },
  { rules: { '/a': { password: 'x' } }, do: 'see', at: '/a/b', by: 'password /a', refusing: ['password'] },
  {
    rules: { '/a': { writeUsers: [7] } },
    may: ['write'],
    do: 'write',
    at: '/a/b',
    by: 'write_users /a',
    refusing: ['write_users'],
  },
  { rules: { '/a': { write: true } }, do: 'write', at: '/a/b', by: 'rule_with_write /a' },
  { rules: { '/a': { write: true } }, may: ['write'], do: 'write', at: '/a/b', by: 'permission' },
])

table('the right is told by the deciding grants, or else by the permission', [
  { do: 'see', at: '/a', by: 'permission' },
  { do: 'write', at: '/a', by: 'permission', refusing: ['permission'] },
  { may: ['write'], do: 'write', at: '/a', by: 'permission' },
  { grants: { '/': '+write', '/a': '-write' }, do: 'write', at: '/a/b', by: 'grant user:1 /a', refusing: ['grant'] },
  { grants: { '/a': '+write', 'group:2/a': '-write' }, do: 'write', at: '/a/b', by: 'grant user:1 /a' },
  {
    grants: { 'group:1/a': '+write', 'group:2/a': '-write', 'group:3/a': '-write' },
    do: 'write',
    at: '/a/b',
    by: 'grant group:2 group:3 /a',
    refusing: ['grant'],
  },
  { only: true, grants: { '/a': '+see' }, do: 'write', at: '/a', by: 'granted_only', refusing: ['granted_only'] },
  {
    grants: { '/a': '+remove' },
    do: 'remove',
    at: '/a',
    by: 'folder_of_grant user:1 /a',
    refusing: ['folder_of_grant'],
  },
  { grants: { '/a': '+remove' }, may: ['remove'], do: 'remove', at: '/a', by: 'grant user:1 /a' },
  { grants: { '/a': '+remove' }, do: 'remove', at: '/a/b', by: 'grant user:1 /a' },
  // To move something is to remove it.
  {
    grants: { '/a': '+move -remove' },
    do: 'move',
    at: '/a/b',
    by: 'grant user:1 /a',
    refusing: ['grant'],
  },
])

table('all steps that refuse are told, and the first decides', [
  {
    grants: { '/a': '-see' },
    rules: { '/a': { hide: 'b', readUsers: [7], writeUsers: [7] } },
    do: 'write',
    at: '/a/b',
    by: 'not_seen user:1 /a',
    refusing: ['not_seen', 'hidden', 'read_users', 'not_seen', 'write_users'],
  },
])

table('sharing asks a right of its own, and changes nothing', [
  { do: 'share', at: '/a', by: 'permission', refusing: ['permission'] },
  { may: ['share'], do: 'share', at: '/a', by: 'permission' },
  { grants: { '/a': '+share' }, do: 'share', at: '/a/b', by: 'grant user:1 /a' },
  { grants: { '/a': '-share' }, may: ['share'], do: 'share', at: '/a', by: 'grant user:1 /a', refusing: ['grant'] },
  { rules: { '/a': { writeUsers: [7] } }, may: ['share'], do: 'share', at: '/a/b', by: 'permission' },
  { rules: { '/a': { write: true } }, do: 'share', at: '/a/b', by: 'permission', refusing: ['permission'] },
  { who: { readOnly: true, may: ['share'] }, do: 'share', at: '/a', by: 'permission' },
  { who: { protocol: webdav, may: ['share', 'webdavRead'] }, do: 'share', at: '/a', by: 'permission' },
])

void t.test('every step is told, with its kind, in the order in which it is asked', async (t) => {
  const { steps } = explainVerdict(principal(), 'write', p('/a'), ruled({}, p('/a')))
  t.same(
    steps.map(({ kind }) => kind),
    ['credential', 'protocol', 'base', 'grant', 'hidden', 'rule', 'rule', 'permission', 'rule'],
  )
})

void t.test('a step after the one that refuses names the grant that it looked at', async (t) => {
  const path = p('/a')
  const { steps } = explainVerdict(principal({}), 'see', path, ruled({ grants: { '/a': '-see' } }, path))
  const looked = steps.filter(({ kind }) => kind === 'grant').map(told)
  t.same(looked, ['not_seen user:1 /a', 'not_seen user:1 /a'])
})
